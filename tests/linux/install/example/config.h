/* The program has a config.h of its own, as programs do. */
#define DEVICE_READINGS 4096
