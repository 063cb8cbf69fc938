/* The table of frees under way by itself: one command a line, and how many places it has in use afterwards. */
#include "../../src/pending.c"

#include <stdio.h>
#include <string.h>

static void *handle(long long value) {
    return (void *)(uintptr_t)value;
}

int main(void) {
    struct hami_pending pending = {.count = 0};
    char command[16];
    long long context, stream, frees, only;
    while (scanf("%15s %lld %lld %lld %lld", command, &context, &stream, &frees, &only) == 5) {
        if (strcmp(command, "freed") == 0) {
            hami_pending_add(&pending, handle(context), handle(stream), (uint64_t)frees);
        } else if (strcmp(command, "waited") == 0) {
            struct hami_wait wait = {handle(context), handle(stream), (uint64_t)frees, only != 0};
            hami_pending_waited(&pending, &wait);
        } else if (strcmp(command, "end_stream") == 0) {
            hami_pending_stream_ending(&pending, handle(stream));
        } else if (strcmp(command, "ending") == 0) {
            hami_pending_context_ending(&pending, handle(context));
        } else {
            hami_pending_context_ended(&pending, handle(context));
        }
        printf("%u\n", pending.count);
        (void)fflush(stdout);
    }
    return 0;
}
