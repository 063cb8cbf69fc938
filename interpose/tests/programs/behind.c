/* The library that other.c links with and finds by RTLD_NEXT. With -DASTRAY, one that it must not find. */
int cuMemAlloc_v2(void);
int behind(void);

#ifdef ASTRAY
enum { ALLOCATED = -2, BEHIND = -2 };
#else
enum { ALLOCATED = 4712, BEHIND = 2 };
#endif

int cuMemAlloc_v2(void) {
    return ALLOCATED;
}

int behind(void) {
    return BEHIND;
}
