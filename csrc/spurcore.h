/* What every C unit of the core includes: system headers, kernel numbers, then the declarations that cffi reads too. */
#ifndef SPUR_CORE_H
#define SPUR_CORE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "kernel.h"

#include "plan.h"

#include "spurcore.cdef.h"

#endif
