#ifndef SIM_UUID_H
#define SIM_UUID_H

#include <stdint.h>
#include <stdio.h>

#define SIM_UUID_TEXT 48 /* "MIG-GPU-" at most, 36 characters, NUL */

static inline void sim_uuid_text(const uint8_t uuid[16], const char *prefix, char text[SIM_UUID_TEXT]) {
    int at = snprintf(text, SIM_UUID_TEXT, "%s", prefix);
    for (int i = 0; i < 16; i++) {
        at += snprintf(text + at, (size_t)(SIM_UUID_TEXT - at), "%s%02x",
                       i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid[i]);
    }
}

#endif
