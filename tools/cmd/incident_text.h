/* An incident, or what a list of them says of it, from the API's JSON as text. */
#ifndef ET_INCIDENT_TEXT_H
#define ET_INCIDENT_TEXT_H

#include "tools/lib/json_read.h"

/* Appends "span order 2.31s, limit 2s". */
void et_incident_write_trigger(const json_t *incident, struct et_buf *out);
void et_incident_write_time(const json_t *incident, struct et_buf *out);
const char *et_incident_device(const json_t *incident);

/* Appends what the thread that it is about did, and what the others did. */
void et_incident_write(const json_t *incident, struct et_buf *out);

#endif
