/* See nearest.h. */
#include "common/base/nearest.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/util.h"

enum { LENGTH_MAX = 32 };

static bool equal(char a, char b)
{
	return a == b || ((a == '-' || a == '_') && (b == '-' || b == '_'));
}

/* The restricted Damerau-Levenshtein distance. */
static unsigned count_typos(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned typos[LENGTH_MAX + 1][LENGTH_MAX + 1];

	for (size_t i = 0; i <= a_length; i++)
		typos[i][0] = (unsigned)i;
	for (size_t j = 0; j <= b_length; j++)
		typos[0][j] = (unsigned)j;
	for (size_t i = 1; i <= a_length; i++)
		for (size_t j = 1; j <= b_length; j++) {
			unsigned least = typos[i - 1][j - 1] + !equal(a[i - 1], b[j - 1]);

			least = KR_MIN(least, typos[i - 1][j] + 1);
			least = KR_MIN(least, typos[i][j - 1] + 1);
			if (i > 1 && j > 1 && equal(a[i - 1], b[j - 2]) && equal(a[i - 2], b[j - 1]))
				least = KR_MIN(least, typos[i - 2][j - 2] + 1);
			typos[i][j] = least;
		}
	return typos[a_length][b_length];
}

void kr_nearest_try(struct kr_nearest *nearest, const char *word, const char *candidate)
{
	const size_t length = strlen(word), other = strlen(candidate);
	unsigned typos;

	if (length > LENGTH_MAX || other > LENGTH_MAX)
		return;
	typos = count_typos(word, length, candidate, other);
	if (typos > KR_MAX(length, other) / 3 || (nearest->name && typos >= nearest->typos))
		return;
	*nearest = (struct kr_nearest){.name = candidate, .typos = typos};
}
