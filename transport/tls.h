/* The former name of <edgeprof/tls.h>, for programs that are built with -Itransport. It is not installed. */
#include <edgeprof/tls.h>
