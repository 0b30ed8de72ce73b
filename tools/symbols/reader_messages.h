/* Messages to the process that opens files, and to those that read them (reader_process.h). Context: any thread. */
#ifndef ET_READER_MESSAGES_H
#define ET_READER_MESSAGES_H

#include "tools/symbols/reader.h"
#include "tools/symbols/reader_process.h"

/* Gives an order and waits until it is done. *fd: what came with it; -1: nothing. */
struct et_order_done et_reader_order(const struct et_order *order, int *fd);

/* How long an answer may take. */
struct et_reader_waiting {
    int socket;
    int64_t until_ns;
    const atomic_bool *stopping; /* NULL: nothing ends it */
};
struct et_reader_waiting et_reader_wait(int socket, int seconds, const atomic_bool *stopping);

/* All return 0; -EPIPE: the other process has ended; receiving: -ETIMEDOUT, or -ECANCELED when it is to stop. */
int et_reader_send(int socket, const struct et_question *question);
int et_reader_send_bytes(const struct et_reader_waiting *waiting, const void *bytes, size_t size);
int et_reader_receive(const struct et_reader_waiting *waiting, void *bytes, size_t size);

#endif
