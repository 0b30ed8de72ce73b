/* The former name of <edgeprof/edgeprof.h>, for programs that are built with -Icore. It is not installed. */
#include "edgeprof/edgeprof.h"
