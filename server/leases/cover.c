/* See cover.h. */
#include "server/leases/cover.h"

#include <errno.h>

/* Errors that are not about the bytes: the node sends them again at once. */
static bool is_passing(int err)
{
	return err == -EAGAIN || err == -ENOTCONN || err == -EINTR || err == -ECANCELED || err == -ENOMEM;
}

void kr_cover_flushed(struct kr_cover *cover, int err)
{
	if (!err)
		*cover = (struct kr_cover){0};
	else if (!is_passing(err))
		cover->refused = true;
}

void kr_cover_gave_up(struct kr_cover *cover, uint64_t epoch)
{
	if (cover->refused && !cover->lost)
		cover->lost = epoch;
}

void kr_cover_judged(struct kr_cover *cover, bool conflict)
{
	cover->lost = 0;
	cover->refused &= !conflict;
}
