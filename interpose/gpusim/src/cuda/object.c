/* Type-stable memory for handles: freed objects are re-used for the same size class and never unmapped. */
#include <stdlib.h>
#include <string.h>

#include "driver.h"

#define CLASS_BYTES 64u
#define CLASSES 64u

static struct {
    pthread_mutex_t lock;
    struct sim_object *free;
} classes[CLASSES];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_classes(void) {
    for (unsigned i = 0; i < CLASSES; i++) {
        pthread_mutex_init(&classes[i].lock, NULL);
    }
}

void *sim_object_new(enum sim_tag tag, size_t size) {
    pthread_once(&once, init_classes);
    unsigned class = (unsigned)((size + CLASS_BYTES - 1) / CLASS_BYTES);
    if (class >= CLASSES) {
        return NULL;
    }
    pthread_mutex_lock(&classes[class].lock);
    struct sim_object *object = classes[class].free;
    if (object != NULL) {
        classes[class].free = object->next_free;
    }
    pthread_mutex_unlock(&classes[class].lock);
    if (object == NULL) {
        object = malloc((size_t)class * CLASS_BYTES);
        if (object == NULL) {
            return NULL;
        }
    }
    memset(object, 0, (size_t)class * CLASS_BYTES);
    object->size_class = class;
    atomic_store_explicit(&object->tag, (uint32_t)tag, memory_order_release);
    return object;
}

void sim_object_delete(void *pointer) {
    struct sim_object *object = pointer;
    unsigned class = object->size_class;
    atomic_store_explicit(&object->tag, SIM_TAG_FREE, memory_order_release);
    pthread_mutex_lock(&classes[class].lock);
    object->next_free = classes[class].free;
    classes[class].free = object;
    pthread_mutex_unlock(&classes[class].lock);
}
