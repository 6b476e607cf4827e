/* See kernel_names.h. */
#include "fuse/names/kernel_names.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/base/util.h"
#include "common/rpc/attr_cache.h"
#include "fuse/base/options.h"
#include "fuse/names/attr_cache.h"

enum { LOOK_AGAIN_MS = 10 };

struct loans {
	_Atomic uint64_t lent_ns;        /* the latest reply; 0: there was none */
	_Atomic uint32_t lending;        /* threads that are about to reply */
	_Atomic uint32_t quiet_s;        /* no loans before that (now_s) */
	_Atomic uint32_t burst_s, burst; /* how many lookups there were in that second; about */
	_Atomic uint32_t walked_s;       /* the bucket, or one below it, is listed until then */
};

/* An INVALIDATE that is not answered yet. */
struct waiting {
	struct kr_link link;
	uint32_t bucket;
	struct kr_down down;
};

struct kr_kernel_names {
	struct loans all, *buckets; /* KR_ATTR_CACHE_BUCKETS of them */
	_Atomic uint64_t lent;
	/* Loop thread. */
	struct kr_list waiting;
	_Atomic uint64_t delayed;
	uv_timer_t timer;
	bool started;
};

struct kr_kernel_names *kr_kernel_names_new(void)
{
	struct kr_kernel_names *names = kr_xcalloc(1, sizeof(*names));

	names->buckets = kr_xcalloc(KR_ATTR_CACHE_BUCKETS, sizeof(*names->buckets));
	kr_list_init(&names->waiting);
	return names;
}

void kr_kernel_names_free(struct kr_kernel_names *names)
{
	free(names->buckets);
	free(names);
}

static struct loans *loans_of(struct kr_kernel_names *names, uint32_t bucket)
{
	return bucket == KR_ATTR_CACHE_ALL ? &names->all : &names->buckets[bucket];
}

static uint32_t now_s(void)
{
	return (uint32_t)(kr_clock_ns() / KR_NS_PER_S);
}

void kr_kernel_names_listed(struct kr_mount *mount, const struct kr_fid *dir)
{
	struct loans *loans = loans_of(mount->kernel_names, kr_attr_cache_bucket(dir));

	atomic_store_explicit(&loans->walked_s, now_s() + KR_NAME_LISTED_S, memory_order_relaxed);
}

/* Whether so many names of DIR are looked up in this second. */
static bool is_burst(struct loans *dir, uint32_t now)
{
	if (atomic_exchange_explicit(&dir->burst_s, now, memory_order_relaxed) != now)
		atomic_store_explicit(&dir->burst, 0, memory_order_relaxed);
	return atomic_fetch_add_explicit(&dir->burst, 1, memory_order_relaxed) >= KR_NAME_BURST;
}

/* Whether DIR is being gone through; so it is when FID in it is. */
static bool is_walked(struct kr_kernel_names *names, struct loans *dir, const struct kr_fid *fid)
{
	const uint32_t now = now_s();
	const struct loans *file = loans_of(names, kr_attr_cache_bucket(fid));
	uint32_t until_s = atomic_load_explicit(&file->walked_s, memory_order_relaxed);

	if (until_s > atomic_load_explicit(&dir->walked_s, memory_order_relaxed))
		atomic_store_explicit(&dir->walked_s, until_s, memory_order_relaxed);
	return atomic_load_explicit(&dir->walked_s, memory_order_relaxed) >= now || is_burst(dir, now);
}

static bool is_quiet(const struct loans *loans)
{
	return KR_FAULT("names.eager") || now_s() >= atomic_load(&loans->quiet_s);
}

static void end_lending(struct kr_kernel_names *names, struct loans *loans)
{
	atomic_fetch_sub(&loans->lending, 1);
	atomic_fetch_sub(&names->all.lending, 1);
}

/* Whether names may be lent there.  Then the caller counts as lending, and looks into the attribute cache next. */
static bool begin_lending(struct kr_kernel_names *names, struct loans *loans)
{
	atomic_fetch_add(&names->all.lending, 1);
	atomic_fetch_add(&loans->lending, 1);
	if (is_quiet(loans) && is_quiet(&names->all))
		return true;
	end_lending(names, loans);
	return false;
}

/* The fault: so long that another node's change falls into it, also on a slow machine. */
static double loan_s(void)
{
	return (KR_FAULT("names.long") ? 1000 : KR_NAME_LOAN_MS) / 1000.0;
}

double kr_kernel_names_lend(
	struct kr_mount *mount, const struct kr_fid *dir, const char *name, const struct kr_fid *fid)
{
	struct kr_kernel_names *names = mount->kernel_names;
	struct loans *loans = loans_of(names, kr_attr_cache_bucket(dir));

	if (!mount->options->default_permissions || !is_walked(names, loans, fid) || !begin_lending(names, loans))
		return 0;
	if (kr_attr_cache_is_public(mount, dir, name, fid))
		return loan_s();
	end_lending(names, loans);
	return 0;
}

double kr_kernel_names_lend_listed(struct kr_mount *mount, const struct kr_fid *dir)
{
	struct kr_kernel_names *names = mount->kernel_names;

	if (!mount->options->default_permissions || !begin_lending(names, loans_of(names, kr_attr_cache_bucket(dir))))
		return 0;
	return loan_s();
}

static void lent(struct loans *loans)
{
	atomic_store(&loans->lent_ns, kr_clock_ns());
	atomic_fetch_sub(&loans->lending, 1);
}

void kr_kernel_names_lent(struct kr_mount *mount, const struct kr_fid *dir)
{
	lent(loans_of(mount->kernel_names, kr_attr_cache_bucket(dir)));
	lent(&mount->kernel_names->all);
	atomic_fetch_add_explicit(&mount->kernel_names->lent, 1, memory_order_relaxed);
}

void kr_kernel_names_lent_none(struct kr_mount *mount, const struct kr_fid *dir)
{
	end_lending(mount->kernel_names, loans_of(mount->kernel_names, kr_attr_cache_bucket(dir)));
}

/* --- taking loans back ------------------------------------------------------------------------ */

static bool is_over(struct loans *loans, uint64_t now_ns)
{
	uint64_t lent_ns;

	if (KR_FAULT("names.keep"))
		return true;
	if (atomic_load(&loans->lending) > 0)
		return false;
	lent_ns = atomic_load(&loans->lent_ns);
	return lent_ns == 0 || lent_ns + KR_NAME_LENT_MS * KR_NS_PER_MS <= now_ns;
}

void kr_kernel_names_moves(struct kr_mount *mount, const struct kr_fid *from, const struct kr_fid *to)
{
	uint64_t now_ns = kr_clock_ns();

	if (!is_over(loans_of(mount->kernel_names, kr_attr_cache_bucket(from)), now_ns))
		atomic_store(&loans_of(mount->kernel_names, kr_attr_cache_bucket(to))->lent_ns, now_ns);
}

static void lend_no_more(struct loans *loans, uint32_t seconds)
{
	atomic_store(&loans->quiet_s, now_s() + seconds);
}

static void on_timer(uv_timer_t *timer)
{
	struct kr_mount *mount = timer->data;
	struct kr_kernel_names *names = mount->kernel_names;
	struct waiting *waiting, *next;
	uint64_t now_ns = kr_clock_ns();

	KR_LIST_FOR_EACH_SAFE(waiting, next, &names->waiting, link) {
		if (!is_over(loans_of(names, waiting->bucket), now_ns))
			continue;
		kr_list_remove(&waiting->link);
		kr_rpc_answer(mount->rpc, &waiting->down, 0, NULL);
		free(waiting);
	}
	if (kr_list_empty(&names->waiting))
		uv_timer_stop(timer);
}

void kr_kernel_names_answer(struct kr_mount *mount, uint32_t bucket, const struct kr_down *down)
{
	struct kr_kernel_names *names = mount->kernel_names;
	struct loans *loans = loans_of(names, bucket);
	uint64_t now_ns = kr_clock_ns();
	struct waiting *waiting;

	if (down->id)
		lend_no_more(loans, KR_NAME_QUIET_S);
	if (!down->id || !names->started || is_over(loans, now_ns)) {
		kr_rpc_answer(mount->rpc, down, 0, NULL);
		return;
	}
	lend_no_more(&names->all, KR_NAME_PAUSE_S);
	atomic_fetch_add_explicit(&names->delayed, 1, memory_order_relaxed);
	waiting = kr_xcalloc(1, sizeof(*waiting));
	waiting->bucket = bucket;
	waiting->down = *down;
	kr_list_append(&names->waiting, &waiting->link);
	if (!uv_is_active((uv_handle_t *)&names->timer))
		uv_timer_start(&names->timer, on_timer, LOOK_AGAIN_MS, LOOK_AGAIN_MS);
}

void kr_kernel_names_take_back(struct kr_mount *mount, const struct kr_fid *dir)
{
	struct kr_kernel_names *names = mount->kernel_names;
	struct loans *loans = loans_of(names, kr_attr_cache_bucket(dir));

	lend_no_more(loans, KR_NAME_QUIET_S);
	while (!is_over(loans, kr_clock_ns())) {
		lend_no_more(&names->all, KR_NAME_PAUSE_S);
		uv_sleep(LOOK_AGAIN_MS);
	}
}

void kr_kernel_names_start(struct kr_mount *mount)
{
	struct kr_kernel_names *names = mount->kernel_names;

	uv_timer_init(mount->loop, &names->timer);
	names->timer.data = mount;
	names->started = true;
}

void kr_kernel_names_stop(struct kr_mount *mount)
{
	struct kr_kernel_names *names = mount->kernel_names;

	if (names->started)
		uv_close((uv_handle_t *)&names->timer, NULL);
	names->started = false;
	while (!kr_list_empty(&names->waiting)) {
		struct waiting *waiting = KR_LIST_ENTRY(names->waiting.head.next, struct waiting, link);

		kr_list_remove(&waiting->link);
		free(waiting);
	}
}

json_t *kr_kernel_names_status(const struct kr_mount *mount)
{
	const struct kr_kernel_names *names = mount->kernel_names;

	return json_pack("{s:I,s:I}", "lent", (json_int_t)atomic_load(&names->lent), "delayed",
		(json_int_t)atomic_load(&names->delayed));
}
