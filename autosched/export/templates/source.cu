// Kernels of a pipeline, and the function @name@ that launches them. @name@.h says how to call it.

#include "@name@.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

@undefine@// What the kernels are written with. AUTOSCHED_PRELUDE names a file to take instead, so that they can be run elsewhere.
#ifdef AUTOSCHED_PRELUDE
#include AUTOSCHED_PRELUDE
#else

@prelude@
#endif  // AUTOSCHED_PRELUDE

@scalars@
@kernels@
@checks@
extern "C" size_t @name@_workspace_bytes(void) {
    return @prefix@_WORKSPACE_BYTES;
}

@function@
