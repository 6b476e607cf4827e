/* Prints a server's state directory, for people: `kairan journal`. */
#ifndef KR_SERVER_STATE_DUMP_H
#define KR_SERVER_STATE_DUMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Whether DIR is a server's state directory. Blocks. */
bool kr_state_dump_knows(int dir);
/* Prints the members and the logs of DIR to TO; also the requests executed if ALL. *RET_DAMAGED: how many lines of the
 * logs are invalid. Changes nothing, so a server may be using DIR. 0 or -errno with a reason. Blocks. */
int kr_state_dump(int dir, bool all, FILE *to, size_t *ret_damaged);

#endif
