// What every kernel sees without an #include: CUDA C++'s own names, in the order in which they need each other.
#pragma once
// A constexpr function may call what is none, as with nvcc: as long as no constant needs it. In force to the source's end.
#pragma clang diagnostic ignored "-Winvalid-constexpr"
#include "gpulend/keywords.h"
#ifndef __GPULEND_PROGRAM
#include "gpulend/integers.h"
#include "gpulend/traits.h"
#endif
#include "gpulend/vectors.h"
#include "gpulend/indices.h"
#include "gpulend/bits.h"
#include "gpulend/packed.h"
#include "gpulend/casts.h"
#include "gpulend/libm.h"
#include "gpulend/math.h"
#include "gpulend/overloads.h"
#include "gpulend/intrinsics.h"
#include "gpulend/barriers.h"
#include "gpulend/warp.h"
#include "gpulend/atomics.h"
#include "gpulend/loads.h"
#include "gpulend/bytes.h"
#include "gpulend/output.h"
#include "gpulend/allocation.h"
