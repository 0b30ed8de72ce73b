/*
 * A far end for transport/contract/: a thread that listens on 127.0.0.1, or sits at the other end of a pseudo terminal,
 * and plays the parts of enum ep_far in a given protocol.
 */
#ifndef FAR_H
#define FAR_H

#include <pthread.h>
#include <stdbool.h>

#include "contract.h"

#define FAR_LARGEST (1u << 20)

struct far;

struct far_protocol {
    unsigned can; /* EP_FAR_BIT()s */
    /* Reads one message; its size, 0: it is none to be kept, -1: the connection is of no use any more. */
    long (*hear)(struct far *far, int fd, uint8_t *bytes);
    /* What part has to say to the message that was just heard. */
    void (*answer)(struct far *far, int fd, enum ep_far part);
    bool terminal; /* instead of a socket */
    bool memory;   /* nothing is listened to: somebody else asks for the part, and keeps */
};

extern const struct far_protocol far_http, far_mqtt, far_serial;
extern const struct far_protocol far_echo; /* for streams: hear and answer are one */

struct far {
    const struct far_protocol *protocol;
    char port[8];
    char device[64];
    int listening; /* or the terminal */
    int slave;     /* of the terminal, so that it is never without one */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum ep_far part;
    unsigned turn, seen; /* parts given, parts begun */
    bool stop;
    struct far_kept {
        struct far_kept *next;
        long size;
        uint8_t bytes[];
    } * first, **last;
    uint8_t packet; /* the protocol's own notes */
    uint32_t check;
};

/* Begins as EP_FAR_TAKES. Ends the program when the system refuses. */
void far_start(struct far *far, const struct far_protocol *protocol);
void far_stop(struct far *far);

/* For struct ep_contract_far, whose context it is. */
struct ep_contract_far far_contract(struct far *far);

/* The part that is played. */
enum ep_far far_part(struct far *far);
/* Keeps a message that has come in some other way. */
void far_keep(struct far *far, const uint8_t *bytes, long size);
/* A little while. */
void far_pause(void);

/* For protocols: exactly size bytes, slowly when the part is slow. False: the far side or the part is over. */
bool far_read(struct far *far, int fd, void *bytes, size_t size);
void far_write(struct far *far, int fd, const void *bytes, size_t size);

#endif
