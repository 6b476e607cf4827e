/* See uncommitted_names.h. */
#include "fuse/names/uncommitted_names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/util.h"

enum { RENAME_EXCHANGE_FLAG = 2 };

/* A regular file or a directory that this node has made. */
struct new_file {
	struct kr_table_link by_fid;
	struct kr_link order;
	uint32_t mode, uid, gid;
	struct kr_time made;
	struct kr_list places; /* struct place */
	uint64_t changed_ns;
	uint64_t round;    /* the last restoration that has come to it */
	struct kr_fid fid; /* last: cut to its length */
};

struct place {
	struct kr_table_link by_name;
	struct kr_link of_file;
	struct new_file *file;
	char *name;           /* in the same memory */
	struct kr_fid parent; /* last: cut to its length */
};

struct kr_uncommitted_names {
	struct kr_table files, places;
	struct kr_list order; /* struct new_file, the latest change last */
	uint64_t round;
	bool (*is_wanted)(void *context, const struct kr_fid *file);
	void *context;
};

static size_t cut_length(const struct kr_fid *fid)
{
	return offsetof(struct kr_fid, bytes) + fid->length;
}

static struct kr_fid whole(const struct kr_fid *cut)
{
	struct kr_fid fid;

	memcpy(&fid, cut, cut_length(cut));
	return fid;
}

/* --- tables ----------------------------------------------------------------------------------- */

static struct new_file *find_file(const struct kr_uncommitted_names *names, const struct kr_fid *fid)
{
	return KR_TABLE_FIND(
		struct new_file, file, &names->files, kr_fid_hash(fid), by_fid, kr_fid_equal(&file->fid, fid));
}

static uint64_t hash_place(const struct kr_fid *parent, const char *name)
{
	return kr_fid_hash(parent) ^ kr_hash_bytes(name, strlen(name));
}

static struct place *find_place(const struct kr_uncommitted_names *names, const struct kr_fid *parent, const char *name)
{
	return KR_TABLE_FIND(struct place, place, &names->places, hash_place(parent, name), by_name,
		kr_fid_equal(&place->parent, parent) && strcmp(place->name, name) == 0);
}

static void free_place(struct kr_uncommitted_names *names, struct place *place)
{
	kr_table_remove(&names->places, &place->by_name);
	kr_list_remove(&place->of_file);
	free(place);
}

static void free_file(struct kr_uncommitted_names *names, struct new_file *file)
{
	while (!kr_list_empty(&file->places))
		free_place(names, KR_LIST_ENTRY(file->places.head.next, struct place, of_file));
	kr_table_remove(&names->files, &file->by_fid);
	kr_list_remove(&file->order);
	free(file);
}

struct kr_uncommitted_names *kr_uncommitted_names_new(
	bool (*is_wanted)(void *context, const struct kr_fid *file), void *context)
{
	struct kr_uncommitted_names *names = kr_xcalloc(1, sizeof(*names));

	kr_table_init(&names->files);
	kr_table_init(&names->places);
	kr_list_init(&names->order);
	names->is_wanted = is_wanted;
	names->context = context;
	return names;
}

static struct new_file *oldest(const struct kr_uncommitted_names *names)
{
	return kr_list_empty(&names->order) ? NULL : KR_LIST_ENTRY(names->order.head.next, struct new_file, order);
}

void kr_uncommitted_names_free(struct kr_uncommitted_names *names)
{
	struct new_file *file;

	if (!names)
		return;
	while ((file = oldest(names)))
		free_file(names, file);
	kr_table_fini(&names->files);
	kr_table_fini(&names->places);
	free(names);
}

/* --- changes ---------------------------------------------------------------------------------- */

static void touch(struct kr_uncommitted_names *names, struct new_file *file, uint64_t now_ns)
{
	kr_list_remove(&file->order);
	kr_list_append(&names->order, &file->order);
	file->changed_ns = now_ns;
}

/* A file without a name can still be open.  Else it is of no use any more, as a directory is. */
static void remove_place(struct kr_uncommitted_names *names, struct place *place, uint64_t now_ns)
{
	struct new_file *file = place->file;

	free_place(names, place);
	if (S_ISDIR(file->mode) || (kr_list_empty(&file->places) && !names->is_wanted(names->context, &file->fid)))
		free_file(names, file);
	else
		touch(names, file, now_ns);
}

static void remove_name(
	struct kr_uncommitted_names *names, const struct kr_fid *parent, const char *name, uint64_t now_ns)
{
	struct place *place = find_place(names, parent, name);

	if (place)
		remove_place(names, place, now_ns);
}

/* NAME in PARENT is FILE (NULL: one that is not new) from now on. */
static void set_name(struct kr_uncommitted_names *names, const struct kr_fid *parent, const char *name,
	struct new_file *file, uint64_t now_ns)
{
	size_t length = strlen(name) + 1, fixed = offsetof(struct place, parent) + cut_length(parent);
	struct place *place;

	remove_name(names, parent, name, now_ns);
	if (!file)
		return;
	place = kr_xcalloc(1, fixed + length);
	place->file = file;
	memcpy(&place->parent, parent, cut_length(parent));
	place->name = (char *)place + fixed;
	memcpy(place->name, name, length);
	kr_table_insert(&names->places, &place->by_name, hash_place(parent, name));
	kr_list_append(&file->places, &place->of_file);
	touch(names, file, now_ns);
}

void kr_uncommitted_names_forget_old(struct kr_uncommitted_names *names, uint64_t now_ns)
{
	struct new_file *file;

	while ((file = oldest(names)) &&
		(names->files.count > KR_UNCOMMITTED_MAX || file->changed_ns + KR_UNCOMMITTED_S * KR_NS_PER_S < now_ns))
		free_file(names, file);
}

/* NAME "": none. */
static void made(struct kr_uncommitted_names *names, const struct kr_fid *fid, const struct kr_attr *attr,
	const struct kr_fid *parent, const char *name, uint64_t now_ns)
{
	struct new_file *file = find_file(names, fid);

	if (file)
		free_file(names, file);
	file = NULL;
	if (S_ISREG(attr->mode) || S_ISDIR(attr->mode)) {
		file = kr_xcalloc(1, offsetof(struct new_file, fid) + cut_length(fid));
		memcpy(&file->fid, fid, cut_length(fid));
		file->mode = attr->mode;
		file->uid = attr->uid;
		file->gid = attr->gid;
		file->made = attr->ctime;
		file->changed_ns = now_ns;
		kr_list_init(&file->places);
		kr_list_append(&names->order, &file->order);
		kr_table_insert(&names->files, &file->by_fid, kr_fid_hash(fid));
	}
	if (name[0])
		set_name(names, parent, name, file, now_ns);
}

static void renamed(struct kr_uncommitted_names *names, const struct kr_rename_request *asked, uint64_t now_ns)
{
	struct place *from = find_place(names, &asked->parent, asked->name),
		     *to = find_place(names, &asked->new_parent, asked->new_name);
	struct new_file *moved = from ? from->file : NULL, *replaced = to ? to->file : NULL;

	if (moved && moved == replaced) /* two names of one file: rename(2) does nothing, or they stay what they were */
		return;
	if (from) /* not remove_place: a directory goes on */
		free_place(names, from);
	if (to && (asked->flags & RENAME_EXCHANGE_FLAG))
		free_place(names, to);
	set_name(names, &asked->new_parent, asked->new_name, moved, now_ns);
	if (asked->flags & RENAME_EXCHANGE_FLAG)
		set_name(names, &asked->parent, asked->name, replaced, now_ns);
}

static void changed_attr(struct kr_uncommitted_names *names, const struct kr_fid *fid, const struct kr_attr *attr)
{
	struct new_file *file = find_file(names, fid);

	if (!file)
		return;
	file->mode = (file->mode & S_IFMT) | (attr->mode & 07777);
	file->uid = attr->uid;
	file->gid = attr->gid;
}

void kr_uncommitted_names_answered(struct kr_uncommitted_names *names, uint16_t type, const union kr_any_msg *asked,
	const union kr_any_msg *reply, uint64_t now_ns)
{
	switch (type) {
	case KR_MSG_CREATE:
		if (reply->create_reply.created)
			made(names, &reply->create_reply.file, &reply->create_reply.attr, &asked->create_request.parent,
				asked->create_request.name, now_ns);
		break;
	case KR_MSG_MAKE:
		made(names, &reply->make_reply.file, &reply->make_reply.attr, &asked->make_request.parent,
			asked->make_request.name, now_ns);
		break;
	case KR_MSG_LINK:
		set_name(names, &asked->link_request.parent, asked->link_request.name,
			find_file(names, &asked->link_request.file), now_ns);
		break;
	case KR_MSG_REMOVE:
		remove_name(names, &asked->remove_request.parent, asked->remove_request.name, now_ns);
		break;
	case KR_MSG_RENAME:
		renamed(names, &asked->rename_request, now_ns);
		break;
	case KR_MSG_SETATTR:
		changed_attr(names, &asked->setattr_request.file, &reply->setattr_reply.attr);
		break;
	default:
		return;
	}
	kr_uncommitted_names_forget_old(names, now_ns);
}

/* --- restoring -------------------------------------------------------------------------------- */

struct restoration {
	struct kr_uncommitted_names *names;
	void (*add)(void *context, const struct kr_restore_request *request);
	void *context;
};

static void add_one(const struct restoration *restoration, const struct new_file *file, const struct place *place)
{
	const struct kr_restore_request request = {.file = whole(&file->fid),
		.parent = whole(place ? &place->parent : &file->fid),
		.name = place ? place->name : "",
		.mode = file->mode,
		.uid = file->uid,
		.gid = file->gid,
		.made = file->made};

	restoration->add(restoration->context, &request);
}

static void restore(const struct restoration *restoration, struct new_file *file);

/* The new directories above DIR, then DIR. */
static void restore_above(const struct restoration *restoration, const struct kr_fid *dir)
{
	struct new_file *file = find_file(restoration->names, dir);

	if (file)
		restore(restoration, file);
}

static void restore(const struct restoration *restoration, struct new_file *file)
{
	const struct place *place;

	if (file->round == restoration->names->round)
		return;
	file->round = restoration->names->round;
	KR_LIST_FOR_EACH(place, &file->places, of_file)
		restore_above(restoration, &place->parent);
	KR_LIST_FOR_EACH(place, &file->places, of_file)
		add_one(restoration, file, place);
	if (kr_list_empty(&file->places))
		add_one(restoration, file, NULL);
}

void kr_uncommitted_names_restore(struct kr_uncommitted_names *names,
	void (*add)(void *context, const struct kr_restore_request *request), void *context)
{
	const struct restoration restoration = {.names = names, .add = add, .context = context};
	struct new_file *file;

	names->round++;
	KR_LIST_FOR_EACH(file, &names->order, order) {
		if (S_ISREG(file->mode) && names->is_wanted(names->context, &file->fid))
			restore(&restoration, file);
	}
}
