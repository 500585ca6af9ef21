// A pipeline as C with OpenMP, and the function @name@ that runs it. @name@.h says how to call it.

#include "@name@.h"

#include <string.h>

@undefine@static void @entry@(void *const *arrays, void *const *scalars);

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunknown-pragmas"  // OpenMP's, where it is off

@pipeline@
#pragma GCC diagnostic pop

@checks@
size_t @name@_workspace_bytes(void) {
    return @prefix@_WORKSPACE_BYTES;
}

@function@
