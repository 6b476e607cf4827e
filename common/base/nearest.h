/* "Did you mean ...?": which of several names a mistyped word may stand for.  Pure. */
#ifndef KR_COMMON_NEAREST_H
#define KR_COMMON_NEAREST_H

struct kr_nearest {
	const char *name; /* borrowed; NULL: no name is near */
	unsigned typos;
};

/* Makes CANDIDATE the nearest name of WORD if fewer typing mistakes lie between them than for the one before, and at
 * most one per three characters.  A mistake: a character that is left out, added or changed, or two that are
 * exchanged.  '-' and '_' are equal. */
void kr_nearest_try(struct kr_nearest *nearest, const char *word, const char *candidate);

#endif
