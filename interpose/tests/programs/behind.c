/* What other.c looks for behind itself. With -DASTRAY, what it must not find, since it is behind others. */
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
