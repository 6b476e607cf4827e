/* `kairan key FILE`: makes a key, of a node or of one user, or shows one without its secret. */
#ifndef KR_TOOLS_KEY_H
#define KR_TOOLS_KEY_H

/* ARGV[0] is "key". Returns the exit code: 0, 1 with a message, 64 wrong arguments. */
int kr_tool_key(int argc, char **argv);

#endif
