/* See inode_table.h. */
#include "fuse/names/inode_table.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "common/rpc/attr_cache.h"

enum { ROOT_NUMBER = 1, PATH_DEPTH = 256 };

#define SIZE_UNSURE UINT64_MAX

/* The fields but `lookups`, those of the size, `place` and `said` never change. */
struct kr_inode {
	struct kr_table_link link;
	uint64_t generation;
	uint32_t type; /* S_IFMT */
	uint64_t lookups;
	uint64_t size;      /* that the kernel believes in, or a greater one; SIZE_UNSURE */
	uint64_t last_size; /* the last that was said to it since the file was cut; 0: none */
	uint32_t cuts;
	uint32_t tellers;               /* threads that are making it believe in one */
	uint64_t granted_until_ns;      /* 0: no grant; else `of_bucket` is in kr_inodes.grants */
	struct kr_table_link of_bucket; /* its hash is the bucket's */
	struct place *place;            /* where it was last found; NULL: not known */
	struct kr_attr *said;           /* of a directory, when it was last looked up; NULL: not known */
	struct kr_fid fid;              /* last: cut to its length */
};

struct place {
	char *name;           /* in the same memory */
	struct kr_fid parent; /* last: cut to its length */
};

struct kr_inodes {
	pthread_mutex_t lock;     /* guards everything below and what changes of each inode */
	pthread_cond_t told;      /* some inode has a teller less */
	pthread_cond_t forgotten; /* the kernel has forgotten lookups; signalled while `awaiting` */
	uint32_t awaiting;
	struct kr_table by_fid;
	struct kr_table grants; /* kr_inode.of_bucket; one hash is one bucket: kr_hash_u64 maps no two numbers to one */
	struct kr_inode *root;
	uint64_t generations;
};

static uint64_t number_of(const struct kr_inodes *inodes, const struct kr_inode *inode)
{
	return inode == inodes->root ? ROOT_NUMBER : (uint64_t)(uintptr_t)inode;
}

static struct kr_inode *find(struct kr_inodes *inodes, const struct kr_fid *fid)
{
	return KR_TABLE_FIND(
		struct kr_inode, inode, &inodes->by_fid, kr_fid_hash(fid), link, kr_fid_equal(&inode->fid, fid));
}

static struct kr_inode *add(struct kr_inodes *inodes, const struct kr_fid *fid, uint32_t type, uint64_t size)
{
	/* A fid is as long as its bytes: most are a fifth of the maximum, and there may be 100,000 of them. */
	struct kr_inode *inode = calloc(1, offsetof(struct kr_inode, fid.bytes) + fid->length);

	if (!inode)
		return NULL;
	inode->fid.length = fid->length;
	memcpy(inode->fid.bytes, fid->bytes, fid->length);
	inode->type = type;
	inode->size = inode->last_size = size;
	inode->generation = ++inodes->generations;
	kr_table_insert(&inodes->by_fid, &inode->link, kr_fid_hash(fid));
	return inode;
}

int kr_inodes_new(const struct kr_fid *root, struct kr_inodes **ret_inodes)
{
	struct kr_inodes *inodes = kr_xcalloc(1, sizeof(*inodes));

	pthread_mutex_init(&inodes->lock, NULL);
	pthread_cond_init(&inodes->told, NULL);
	pthread_cond_init(&inodes->forgotten, NULL);
	kr_table_init(&inodes->by_fid);
	kr_table_init(&inodes->grants);
	inodes->root = add(inodes, root, S_IFDIR, 0);
	assert(inodes->root);
	*ret_inodes = inodes;
	return 0;
}

void kr_inodes_free(struct kr_inodes *inodes)
{
	struct kr_inode *inode;

	if (!inodes)
		return;
	KR_TABLE_FOR_EACH(inode, &inodes->by_fid, link) {
		free(inode->place);
		free(inode->said);
		free(inode);
	}
	kr_table_fini(&inodes->by_fid);
	kr_table_fini(&inodes->grants);
	pthread_cond_destroy(&inodes->told);
	pthread_cond_destroy(&inodes->forgotten);
	pthread_mutex_destroy(&inodes->lock);
	free(inodes);
}

static struct kr_inode *inode_of(const struct kr_inodes *inodes, uint64_t number)
{
	return number == ROOT_NUMBER ? inodes->root : (struct kr_inode *)(uintptr_t)number;
}

void kr_inode_fid(struct kr_inodes *inodes, uint64_t number, struct kr_fid *ret_fid)
{
	const struct kr_inode *inode;

	if (number == KR_INODE_BATCH_FILE) {
		*ret_fid = (struct kr_fid){.length = 1};
		return;
	}
	inode = inode_of(inodes, number);
	ret_fid->length = inode->fid.length;
	memcpy(ret_fid->bytes, inode->fid.bytes, inode->fid.length);
}

static void set_place(struct kr_inode *inode, const struct kr_fid *parent, const char *name)
{
	size_t head = offsetof(struct place, parent.bytes) + parent->length, length = strlen(name) + 1;
	struct place *place = inode->place;

	if (place && strcmp(place->name, name) == 0 && kr_fid_equal(&place->parent, parent))
		return;
	free(place);
	place = malloc(head + length);
	inode->place = place;
	if (!place)
		return; /* a name less for people */
	place->parent.length = parent->length;
	memcpy(place->parent.bytes, parent->bytes, parent->length);
	place->name = (char *)place + head;
	memcpy(place->name, name, length);
}

static void keep_said(struct kr_inode *inode, const struct kr_attr *attr)
{
	if (!inode->said)
		inode->said = malloc(sizeof(*inode->said));
	if (inode->said)
		*inode->said = *attr;
}

static bool is_type(uint32_t type)
{
	return type == S_IFREG || type == S_IFDIR || type == S_IFLNK || type == S_IFIFO || type == S_IFSOCK ||
		type == S_IFCHR || type == S_IFBLK;
}

static int check(const struct kr_attr *attr, uint32_t type)
{
	uint32_t said = attr->mode & S_IFMT;

	if (attr->size > INT64_MAX || !is_type(said))
		return kr_fail(-EIO, "the server says impossible things of a file (mode 0%o, size %llu)", attr->mode,
			(unsigned long long)attr->size);
	if (said != type)
		return kr_fail(-EIO,
			"the server says that a file has become one of another type (mode 0%o instead of 0%o)", said,
			type);
	return 0;
}

static void cut(struct kr_inode *inode)
{
	inode->size = SIZE_UNSURE;
	inode->last_size = 0;
	inode->cuts++;
}

/* The kernel hears of SIZE, and may believe it. */
static void note_size(struct kr_inode *inode, uint64_t size)
{
	if (size < inode->last_size) {
		cut(inode);
		inode->last_size = size;
	}
	if (inode->size != size)
		inode->size = SIZE_UNSURE;
}

/* Whether SIZE is larger than any size that the node has learned since the file was cut. */
static bool is_stale(const struct kr_inode *inode, uint64_t size, uint32_t cuts)
{
	return cuts != inode->cuts && size > inode->last_size;
}

int kr_inode_learn(struct kr_inodes *inodes, const struct kr_fid *fid, const struct kr_attr *attr,
	const struct kr_fid *parent, const char *name, uint64_t *ret_number, uint64_t *ret_generation)
{
	KR_SCOPED_LOCK(&inodes->lock);
	struct kr_inode *inode = find(inodes, fid);
	int err = check(attr, inode ? inode->type : attr->mode & S_IFMT);

	if (err)
		return err;
	if (!inode)
		inode = add(inodes, fid, attr->mode & S_IFMT, attr->size);
	if (!inode)
		return -ENOMEM;
	inode->lookups++;
	note_size(inode, attr->size);
	if (parent && name && inode != inodes->root)
		set_place(inode, parent, name);
	if (inode->type == S_IFDIR)
		keep_said(inode, attr);
	*ret_generation = (uint32_t)kr_fid_hash(fid);
	*ret_number = number_of(inodes, inode);
	return 0;
}

int kr_inode_check(const struct kr_inodes *inodes, uint64_t number, const struct kr_attr *attr)
{
	return check(attr, inode_of(inodes, number)->type);
}

uint32_t kr_inode_truncations(struct kr_inodes *inodes, uint64_t number)
{
	KR_SCOPED_LOCK(&inodes->lock);

	return inode_of(inodes, number)->cuts;
}

enum kr_size_reply kr_inode_reply_size(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t *cuts)
{
	KR_SCOPED_LOCK(&inodes->lock);
	struct kr_inode *inode = inode_of(inodes, number);

	if (is_stale(inode, size, *cuts))
		return KR_SIZE_REPLY_STALE;
	note_size(inode, size);
	inode->last_size = size;
	*cuts = inode->cuts;
	return inode->size == size || size == 0 ? KR_SIZE_REPLY_KNOWN : KR_SIZE_REPLY_NOTIFY;
}

bool kr_inode_notify_size(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t cuts)
{
	KR_SCOPED_LOCK(&inodes->lock);
	struct kr_inode *inode = inode_of(inodes, number);

	if (is_stale(inode, size, cuts))
		return false;
	inode->tellers++;
	return true;
}

void kr_inode_notified_size(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t cuts, bool told)
{
	KR_SCOPED_LOCK(&inodes->lock);
	struct kr_inode *inode = inode_of(inodes, number);

	inode->tellers--;
	pthread_cond_broadcast(&inodes->told);
	if (told && cuts == inode->cuts && size == inode->last_size)
		inode->size = size;
}

void kr_inode_size_grown(struct kr_inodes *inodes, uint64_t number, uint64_t end)
{
	KR_SCOPED_LOCK(&inodes->lock);
	struct kr_inode *inode = inode_of(inodes, number);

	if (inode->size != SIZE_UNSURE)
		inode->size = KR_MAX(inode->size, end);
}

void kr_inode_size_seen(struct kr_inodes *inodes, uint64_t number, uint64_t size)
{
	KR_SCOPED_LOCK(&inodes->lock);

	note_size(inode_of(inodes, number), size);
}

bool kr_inode_truncated(struct kr_inodes *inodes, const struct kr_fid *fid)
{
	KR_SCOPED_LOCK(&inodes->lock);
	struct kr_inode *inode = find(inodes, fid);

	if (inode)
		cut(inode);
	return inode && inode->tellers;
}

void kr_inode_await_notifiers(struct kr_inodes *inodes, const struct kr_fid *fid)
{
	KR_SCOPED_LOCK(&inodes->lock);
	const struct kr_inode *inode;

	while ((inode = find(inodes, fid)) && inode->tellers)
		pthread_cond_wait(&inodes->told, &inodes->lock);
}

bool kr_inode_removed_directory(struct kr_inodes *inodes, uint64_t number, struct kr_attr *ret_attr)
{
	KR_SCOPED_LOCK(&inodes->lock);
	const struct kr_inode *inode = inode_of(inodes, number);

	if (!inode->said)
		return false;
	*ret_attr = *inode->said;
	ret_attr->nlink = 0;
	return true;
}

/* [lock] */
static void end_grant(struct kr_inodes *inodes, struct kr_inode *inode)
{
	if (inode->granted_until_ns)
		kr_table_remove(&inodes->grants, &inode->of_bucket);
	inode->granted_until_ns = 0;
}

void kr_inode_forget(struct kr_inodes *inodes, uint64_t number, uint64_t count)
{
	struct kr_inode *inode;

	if (number == KR_INODE_BATCH_FILE)
		return;
	KR_SCOPED_LOCK(&inodes->lock);
	inode = inode_of(inodes, number);
	inode->lookups -= KR_MIN(count, inode->lookups);
	cut(inode); /* looked up again meanwhile: it may have a new one */
	if (inodes->awaiting)
		pthread_cond_broadcast(&inodes->forgotten);
	if (inode->lookups || inode == inodes->root)
		return;
	end_grant(inodes, inode);
	kr_table_remove(&inodes->by_fid, &inode->link);
	free(inode->place);
	free(inode->said);
	free(inode);
}

uint64_t kr_inode_find(struct kr_inodes *inodes, const struct kr_fid *fid)
{
	KR_SCOPED_LOCK(&inodes->lock);
	const struct kr_inode *inode = find(inodes, fid);

	return inode ? number_of(inodes, inode) : 0;
}

char *kr_inode_path(struct kr_inodes *inodes, const struct kr_fid *fid)
{
	char buffer[KR_PATH_MAX + 1], *start = buffer + KR_PATH_MAX;
	KR_SCOPED_LOCK(&inodes->lock);
	const struct kr_inode *inode = find(inodes, fid);

	*start = '\0';
	if (!inode || !inode->place)
		return NULL;
	for (int depth = 0; inode && inode != inodes->root && inode->place && depth < PATH_DEPTH; depth++) {
		size_t length = strlen(inode->place->name);

		if ((size_t)(start - buffer) < length + 1)
			break;
		if (*start)
			*--start = '/';
		start -= length;
		memcpy(start, inode->place->name, length);
		inode = find(inodes, &inode->place->parent);
	}
	return kr_xstrdup(start);
}

size_t kr_inodes_count(struct kr_inodes *inodes)
{
	KR_SCOPED_LOCK(&inodes->lock);

	return inodes->by_fid.count;
}

/* --- grants ----------------------------------------------------------------------------------- */

void kr_inode_grant(struct kr_inodes *inodes, uint64_t number, uint32_t bucket, uint64_t until_ns)
{
	KR_SCOPED_LOCK(&inodes->lock);
	struct kr_inode *inode = inode_of(inodes, number);

	if (!inode->granted_until_ns)
		kr_table_insert(&inodes->grants, &inode->of_bucket, kr_hash_u64(bucket));
	inode->granted_until_ns = KR_MAX(inode->granted_until_ns, until_ns);
}

/* Ends INODE's grant.  False: it did not last any more. */
static bool take(struct kr_inodes *inodes, struct kr_inode *inode, uint64_t now_ns, struct kr_inode_grant *ret_grant)
{
	bool lasts = inode->granted_until_ns > now_ns;

	if (lasts) {
		*ret_grant = (struct kr_inode_grant){.number = number_of(inodes, inode),
			.generation = inode->generation,
			.until_ns = inode->granted_until_ns,
			.fid.length = inode->fid.length};
		memcpy(ret_grant->fid.bytes, inode->fid.bytes, inode->fid.length);
	}
	end_grant(inodes, inode);
	return lasts;
}

size_t kr_inodes_take_grants(
	struct kr_inodes *inodes, uint32_t bucket, uint64_t now_ns, struct kr_inode_grant *ret, size_t max)
{
	const size_t offset = offsetof(struct kr_inode, of_bucket);
	struct kr_table_walk walk = {0};
	struct kr_inode *inode;
	size_t count = 0;
	KR_SCOPED_LOCK(&inodes->lock);

	while (count < max &&
		(inode = bucket == KR_ATTR_CACHE_ALL ? kr_table_walk_next(&inodes->grants, &walk, offset) :
						       kr_table_first_of(&inodes->grants, kr_hash_u64(bucket), offset)))
		count += take(inodes, inode, now_ns, &ret[count]);
	return count;
}

bool kr_inodes_granted(struct kr_inodes *inodes, uint32_t bucket, uint64_t now_ns)
{
	const struct kr_inode *inode;
	KR_SCOPED_LOCK(&inodes->lock);

	if (bucket == KR_ATTR_CACHE_ALL)
		return inodes->grants.count > 0;
	KR_TABLE_FOR_EACH_OF(inode, &inodes->grants, kr_hash_u64(bucket), of_bucket)
		if (inode->granted_until_ns > now_ns)
			return true;
	return false;
}

uint64_t kr_inode_take_grant_of(struct kr_inodes *inodes, const struct kr_fid *fid, uint64_t now_ns)
{
	KR_SCOPED_LOCK(&inodes->lock);
	struct kr_inode *inode = find(inodes, fid);
	bool lasts = inode && inode->granted_until_ns > now_ns;

	if (inode)
		end_grant(inodes, inode);
	return lasts ? number_of(inodes, inode) : 0;
}

bool kr_inode_grant_ended(struct kr_inodes *inodes, const struct kr_inode_grant *grant, int err, uint64_t now_ns)
{
	KR_SCOPED_LOCK(&inodes->lock);
	const struct kr_inode *inode;

	if ((err != -ENOENT && err != -ENOMEM) || now_ns >= grant->until_ns)
		return true;
	inode = find(inodes, &grant->fid);
	return !inode || inode->generation != grant->generation;
}

void kr_inodes_await_forget(struct kr_inodes *inodes, uint64_t wait_ns)
{
	KR_SCOPED_LOCK(&inodes->lock);

	inodes->awaiting++;
	kr_cond_wait_until(&inodes->forgotten, &inodes->lock, kr_monotonic_after(wait_ns));
	inodes->awaiting--;
}
