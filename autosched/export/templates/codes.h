#define @prefix@_SUCCESS 0
#define @prefix@_INVALID_ARGUMENT 1

