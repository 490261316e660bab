// <assert.h>: means what NDEBUG says where it is included, each time.
#undef assert
#ifdef NDEBUG
#define assert(condition) static_cast<void>(0)
#else
#define assert(condition)                                                                                              \
    (__builtin_expect(!!(condition), 1) ? static_cast<void>(0)                                                         \
                                        : __assertfail(#condition, __FILE__, __LINE__, __PRETTY_FUNCTION__, 1))
#endif
