/* Messages as one line of text, for golden files. */
#ifndef TEST_MSG_DUMP_H
#define TEST_MSG_DUMP_H

#include "common/rpc/msg.h"

/* Appends a one-line readable form ("LOOKUP parent=fid:.. name=a") to W. */
void kr_msg_dump(uint16_t type, bool reply, const void *msg, struct kr_writer *w);

#endif
