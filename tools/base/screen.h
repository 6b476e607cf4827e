/* The terminal as a screen that is written anew now and then, and its keys.  The terminal is as it was before on any
 * end of the program: its own, a signal's, and while the program is stopped (Ctrl-Z). */
#ifndef KR_TOOLS_SCREEN_H
#define KR_TOOLS_SCREEN_H

#include <stdbool.h>

/* -ENOTTY: standard input or output is no terminal. */
int kr_screen_open(void);
void kr_screen_close(void);
/* In characters. */
void kr_screen_size(unsigned *ret_width, unsigned *ret_height);
/* Shows TEXT instead of what is there: lines, of which those that begin with MARK (not shown) stand out.  Lines that
 * have no room are left out. */
void kr_screen_show(const char *text, char mark);
/* Waits for a key, at most MS.  The key; 0: the time is over; 1: the size has changed, or the program goes on after a
 * stop; -1: no more keys will come. */
int kr_screen_key(unsigned ms);

#endif
