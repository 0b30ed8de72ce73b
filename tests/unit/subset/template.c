/* The template's functions, of which port.c replaces these. */
#pragma weak ep_port_uptime_ns
#pragma weak ep_port_unix_ns
#pragma weak ep_port_random
#pragma weak ep_port_identity
#pragma weak ep_port_sampling_start
#pragma weak ep_port_sampling_stop
#pragma weak ep_port_sampling_period
#pragma weak ep_port_threads_scan
#pragma weak ep_port_modules_scan
#include "port/template/port.c"
