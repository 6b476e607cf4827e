/* In place of the others in this folder, when kairan is built without RDMA. */
#include <errno.h>

#include "common/base/fail.h"
#include "common/verbs/verbs.h"

int kr_verbs_new(uv_loop_t *loop, enum kr_transport transport, size_t pool, struct kr_verbs **ret_verbs)
{
	(void)loop, (void)pool;
	if (transport == KR_TRANSPORT_VERBS)
		return kr_fail(-EOPNOTSUPP, "transport=verbs: this program is built without RDMA");
	*ret_verbs = NULL;
	return 0;
}

void kr_verbs_close(struct kr_verbs *verbs)
{
	(void)verbs;
}

void kr_verbs_free(struct kr_verbs *verbs)
{
	(void)verbs;
}

void kr_verbs_ask(struct kr_verbs *verbs, struct kr_conn *conn, bool receives)
{
	(void)verbs, (void)conn, (void)receives;
}

void kr_verbs_answer(struct kr_verbs *verbs, struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)verbs;
	if (!(frame->header.flags & KR_FRAME_ONEWAY))
		kr_conn_reply(conn, KR_MSG_HOP_VERBS, frame->header.id, 0, -EOPNOTSUPP, NULL, NULL, 0);
}
