/* See lookups.h. */
#include "common/rpc/lookups.h"

#include <assert.h>
#include <errno.h>

#include "common/base/fail.h"
#include "common/rpc/msg_priv.h"

void kr_lookups_put_name(struct kr_writer *w, const char *name)
{
	size_t length = strlen(name);

	assert(length > 0 && length <= KR_NAME_MAX);
	kr_put_u8(w, (uint8_t)length);
	kr_put_bytes(w, name, length);
}

int kr_lookups_take_name(struct kr_reader *r, char ret_name[KR_NAME_MAX + 1])
{
	size_t length;
	const uint8_t *bytes;

	if (kr_reader_left(r) == 0)
		return r->failed ? -EBADMSG : 0;
	length = kr_take_u8(r);
	bytes = kr_take_bytes(r, length);
	if (!bytes || length == 0 || memchr(bytes, '\0', length) || memchr(bytes, '/', length))
		return kr_fail(-EBADMSG, "a list of names is malformed");
	memcpy(ret_name, bytes, length);
	ret_name[length] = '\0';
	return 1;
}

void kr_lookups_put_found(struct kr_writer *w, const struct kr_found *found)
{
	bool good = true;

	kr_put_u8(w, found->number);
	kr_put_u8(w, found->kind);
	if (found->kind != KR_FOUND_NOTHING)
		good = kr_put_fid(w, &found->fid) && kr_put_attr(w, &found->attr);
	assert(good); /* the export has made it */
}

int kr_lookups_take_found(struct kr_reader *r, int *last, struct kr_found *ret_found)
{
	struct kr_found found = {0};
	int err = 0;

	if (kr_reader_left(r) == 0)
		return r->failed ? -EBADMSG : 0;
	found.number = kr_take_u8(r);
	found.kind = kr_take_u8(r);
	if (found.kind != KR_FOUND_NOTHING)
		err = kr_take_fid(r, &found.fid);
	if (!err && found.kind != KR_FOUND_NOTHING)
		err = kr_take_attr(r, &found.attr);
	if (err || r->failed || found.kind > KR_FOUND_BARE || found.number >= KR_LOOKUPS_MAX || found.number <= *last)
		return kr_fail(-EBADMSG, "a list of what was found is malformed");
	*last = found.number;
	*ret_found = found;
	return 1;
}
