/* Fuzz target: pipeline and puller driven by any sequence of events; two bytes of input are one event. The pipeline
 * must never lead in a circle, the puller never ask a block twice at once nor exceed its window, and finish with a live
 * upstream.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "ring/pipeline.h"
#include "ring/puller.h"
#include "test/fuzz/fuzz.h"

enum { BLOCKS = 64, WINDOW = 8 };

static uint64_t asked[BLOCKS];
static bool here[BLOCKS];

static bool is_here(void *context, uint64_t block)
{
	(void)context;
	return here[block];
}

static void ignore(void *context, uint32_t node, uint32_t upstream)
{
	(void)context;
	assert(node != upstream);
}

static void ask(struct kr_puller *puller)
{
	uint64_t blocks[2 * WINDOW];
	size_t count = kr_puller_next(puller, blocks, 2 * WINDOW);

	for (size_t i = 0; i < count; i++) {
		assert(asked[blocks[i]] == 0 && !here[blocks[i]]);
		asked[blocks[i]] = puller->upstream;
	}
	assert(puller->fetches.asked_count <= WINDOW);
}

static void arrive(struct kr_puller *puller, uint64_t block)
{
	if (asked[block] == 0)
		return;
	here[block] = true;
	asked[block] = 0;
	assert(kr_puller_arrived(puller, block, NULL));
}

static void lose(struct kr_puller *puller, uint64_t upstream)
{
	for (int i = 0; i < BLOCKS; i++) {
		if (asked[i] == upstream)
			asked[i] = 0;
	}
	kr_puller_lost(puller, upstream);
}

static void drive_puller(struct kr_puller *puller, uint8_t what, uint8_t value)
{
	switch (what % 8) {
	case 0:
		if (!here[value % BLOCKS])
			assert(kr_puller_want(puller, value % BLOCKS, NULL) == 0);
		break;
	case 1:
		kr_puller_ahead(puller, value % BLOCKS, BLOCKS);
		break;
	case 2:
		kr_puller_set_upstream(puller, value % 4);
		break;
	case 3:
		if (value % 4)
			lose(puller, value % 4);
		break;
	case 4:
		kr_puller_reset(puller, NULL);
		memset(asked, 0, sizeof(asked));
		break;
	case 5:
		arrive(puller, value % BLOCKS);
		break;
	default:
		ask(puller);
	}
}

static void drive_pipeline(struct kr_pipeline *pipeline, uint8_t what, uint8_t value)
{
	uint32_t node = 1 + value % 16, at = node, upstream, steps = 0;
	char name[8];

	snprintf(name, sizeof(name), "n%u", node * 7 % 5);
	if (what & 16)
		assert(kr_pipeline_join(pipeline, node, name, ignore, NULL, &upstream) == 0);
	else if (what & 32)
		kr_pipeline_leave(pipeline, node, ignore, NULL);
	else
		kr_pipeline_reparent(pipeline, node, 1 + value / 16, &upstream);
	while ((at = kr_pipeline_upstream(pipeline, at)) != 0)
		assert(++steps <= 16 && kr_pipeline_has(pipeline, at));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct kr_pipeline pipeline;
	struct kr_puller puller;

	memset(asked, 0, sizeof(asked));
	memset(here, 0, sizeof(here));
	kr_pipeline_init(&pipeline);
	kr_puller_init(&puller, WINDOW, is_here, NULL);
	for (size_t i = 0; i + 2 <= length; i += 2) {
		if (bytes[i] & 128)
			drive_pipeline(&pipeline, bytes[i], bytes[i + 1]);
		else
			drive_puller(&puller, bytes[i], bytes[i + 1]);
	}
	for (uint64_t upstream = 1; upstream < 4; upstream++)
		lose(&puller, upstream);
	kr_puller_set_upstream(&puller, 9);
	for (int i = 0; i < BLOCKS && !kr_puller_idle(&puller); i++) {
		ask(&puller);
		for (uint64_t block = 0; block < BLOCKS; block++)
			arrive(&puller, block);
	}
	assert(kr_puller_idle(&puller));
	kr_puller_fini(&puller);
	kr_pipeline_fini(&pipeline);
	return 0;
}
