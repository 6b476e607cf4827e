/* Notes: what answers teach (see notes.h). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/lookups.h"
#include "common/msg.h"
#include "common/notes.h"
#include "fuse/note_key.h"
#include "fuse/notes_priv.h"

/* One answer that is being learnt. */
struct answer {
	struct kr_notes *notes;
	uint64_t asked_ns;
	int err;
	uint16_t flags;
};

static void put(const struct answer *answer, const struct kr_fid *fid, const struct kr_note_key *key, int err, const void *value,
	size_t length)
{
	kr_note_store_put(&answer->notes->store, kr_note_slot(fid), key->bytes, key->length, answer->asked_ns, err, value, length);
	answer->notes->learnt++;
}

static void learn_attr(const struct answer *answer, const struct kr_fid *fid, const struct kr_attr *attr)
{
	struct kr_note_key key;

	if (answer->err || !(answer->flags & KR_FRAME_NOTE_ATTR))
		return;
	kr_note_key(&key, KR_NOTE_ATTR, fid);
	put(answer, fid, &key, 0, attr, sizeof(*attr));
	if (!(answer->flags & KR_FRAME_BARE))
		return;
	kr_note_key(&key, KR_NOTE_BARE, fid);
	put(answer, fid, &key, 0, NULL, 0);
}

static void learn_entry(const struct answer *answer, const struct kr_cred *cred, const struct kr_fid *parent, const char *name,
	const struct kr_fid *fid)
{
	struct kr_note_key key;

	if (!(answer->flags & KR_FRAME_NOTE) || (answer->err && answer->err != -ENOENT))
		return;
	kr_note_key_entry(&key, parent, cred, name);
	put(answer, parent, &key, answer->err, fid, answer->err ? 0 : sizeof(*fid));
}

static void learn_bytes(const struct answer *answer, const struct kr_fid *fid, const struct kr_note_key *key, const void *bytes,
	size_t length)
{
	if (answer->flags & KR_FRAME_NOTE)
		put(answer, fid, key, answer->err, bytes, answer->err ? 0 : length);
}

static void learn_xattr(const struct answer *answer, const struct kr_getxattr_request *asked, const struct kr_getxattr_reply *said)
{
	struct kr_note_key key;

	if (answer->err ? answer->err != -ENODATA && answer->err != -EOPNOTSUPP : said->value.length != said->length)
		return; /* only its length */
	kr_note_key_xattr(&key, &asked->file, &asked->cred, asked->name);
	learn_bytes(answer, &asked->file, &key, said ? said->value.bytes : NULL, said ? said->value.length : 0);
}

static void learn_page(const struct answer *answer, const struct kr_readdir_request *asked, const struct kr_readdir_reply *said)
{
	KR_AUTO_FREE uint8_t *bytes = NULL;
	struct kr_note_key key;

	if (answer->err || !(bytes = malloc(1 + said->entries.length)))
		return;
	bytes[0] = said->end;
	if (said->entries.length)
		memcpy(bytes + 1, said->entries.bytes, said->entries.length);
	kr_note_key_page(&key, &asked->file, &asked->cred, asked->cookie);
	learn_bytes(answer, &asked->file, &key, bytes, 1 + said->entries.length);
}

/* Each as if it had been the answer to a LOOKUP of its own. What is malformed ends it. */
static void learn_found(const struct answer *answer, const struct kr_lookups_request *asked, const struct kr_lookups_reply *said)
{
	struct answer one = *answer;
	struct kr_reader names, list;
	struct kr_found found;
	char name[KR_NAME_MAX + 1];
	int last = -1, at = -1;

	kr_reader_init(&names, asked->names.bytes, asked->names.length);
	kr_reader_init(&list, said->found.bytes, said->found.length);
	while (kr_lookups_take_found(&list, &last, &found) > 0) {
		for (; at < found.number; at++) {
			if (kr_lookups_take_name(&names, name) <= 0)
				return;
		}
		one.err = found.kind == KR_FOUND_NOTHING ? -ENOENT : 0;
		one.flags = KR_FRAME_NOTE | KR_FRAME_NOTE_ATTR | (found.kind == KR_FOUND_BARE ? KR_FRAME_BARE : 0);
		learn_entry(&one, &asked->cred, &asked->parent, name, &found.fid);
		learn_attr(&one, &found.fid, &found.attr);
	}
}

static void learn(const struct answer *answer, uint16_t type, const union kr_any_msg *asked, const union kr_any_msg *said)
{
	struct kr_note_key key;
	KR_SCOPED_LOCK(&answer->notes->lock);

	switch (type) {
	case KR_MSG_LOOKUP:
		learn_entry(answer, &asked->lookup_request.cred, &asked->lookup_request.parent, asked->lookup_request.name,
			answer->err ? NULL : &said->lookup_reply.file);
		if (!answer->err)
			learn_attr(answer, &said->lookup_reply.file, &said->lookup_reply.attr);
		break;
	case KR_MSG_LOOKUPS:
		if (!answer->err)
			learn_found(answer, &asked->lookups_request, &said->lookups_reply);
		break;
	case KR_MSG_MAKE:
		if (answer->err)
			break;
		learn_entry(answer, &asked->make_request.cred, &asked->make_request.parent, asked->make_request.name, &said->make_reply.file);
		learn_attr(answer, &said->make_reply.file, &said->make_reply.attr);
		break;
	case KR_MSG_CREATE:
		if (answer->err)
			break;
		learn_entry(answer, &asked->create_request.cred, &asked->create_request.parent, asked->create_request.name,
			&said->create_reply.file);
		learn_attr(answer, &said->create_reply.file, &said->create_reply.attr);
		break;
	case KR_MSG_GETATTR:
		if (!answer->err)
			learn_attr(answer, &asked->getattr_request.file, &said->getattr_reply.attr);
		break;
	case KR_MSG_SETATTR:
		if (!answer->err)
			learn_attr(answer, &asked->setattr_request.file, &said->setattr_reply.attr);
		break;
	case KR_MSG_LINK:
		if (!answer->err)
			learn_attr(answer, &asked->link_request.file, &said->link_reply.attr);
		break;
	case KR_MSG_READLINK:
		kr_note_key(&key, KR_NOTE_TARGET, &asked->readlink_request.file);
		if (!answer->err)
			learn_bytes(answer, &asked->readlink_request.file, &key, said->readlink_reply.target, strlen(said->readlink_reply.target) + 1);
		break;
	case KR_MSG_ACCESS:
		kr_note_key_may(&key, &asked->access_request.file, &asked->access_request.cred, asked->access_request.mask);
		if (!answer->err || answer->err == -EACCES)
			learn_bytes(answer, &asked->access_request.file, &key, NULL, 0);
		break;
	case KR_MSG_GETXATTR:
		learn_xattr(answer, &asked->getxattr_request, answer->err ? NULL : &said->getxattr_reply);
		break;
	case KR_MSG_LISTXATTR:
		kr_note_key_by(&key, KR_NOTE_XATTR_LIST, &asked->listxattr_request.file, &asked->listxattr_request.cred);
		if (!answer->err && said->listxattr_reply.names.length == said->listxattr_reply.length)
			learn_bytes(answer, &asked->listxattr_request.file, &key, said->listxattr_reply.names.bytes,
				said->listxattr_reply.names.length);
		break;
	case KR_MSG_READDIR:
		learn_page(answer, &asked->readdir_request, answer->err ? NULL : &said->readdir_reply);
		break;
	default:
		break;
	}
}

void kr_notes_opened(struct kr_mount *mount, const struct kr_fid *fid, const struct kr_attr *now)
{
	struct kr_notes *notes = mount->notes;
	const struct kr_note *note;
	struct kr_attr attr;
	struct kr_note_key key;

	if (!notes)
		return;
	kr_note_key(&key, KR_NOTE_ATTR, fid);
	KR_SCOPED_LOCK(&notes->lock);
	note = kr_note_store_get(&notes->store, key.bytes, key.length, kr_clock_ns());
	if (!note)
		return;
	memcpy(&attr, kr_note_value(note), sizeof(attr));
	if (kr_time_compare(now->atime, attr.atime) <= 0)
		return;
	attr.atime = now->atime;
	kr_note_store_amend(&notes->store, note, &attr);
}

void kr_notes_learn(struct kr_mount *mount, uint16_t type, const void *fields, size_t length, int err, const void *reply,
	uint16_t flags, uint64_t asked_ns)
{
	struct answer answer = {.notes = mount->notes, .asked_ns = asked_ns, .err = err, .flags = flags};
	union kr_any_msg *asked;
	struct kr_arena arena = {0};

	if (!mount->notes || !(flags & (KR_FRAME_NOTE | KR_FRAME_NOTE_ATTR)))
		return;
	asked = kr_xcalloc(1, sizeof(*asked));
	if (kr_msg_decode(type, false, fields, length, asked, &arena) == 0)
		learn(&answer, type, asked, reply);
	kr_arena_fini(&arena);
	free(asked);
}
