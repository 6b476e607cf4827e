/* `kairan journal DIR`: shows and checks a journal's directory, also a dead node's disk on another machine. */
#ifndef KR_TOOLS_JOURNAL_H
#define KR_TOOLS_JOURNAL_H

/* ARGV[0] is "journal". Returns the exit code: 0 sound, 1 damaged, 2 cannot be read, 64 wrong arguments. */
int kr_tool_journal(int argc, char **argv);

#endif
