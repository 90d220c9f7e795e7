/* The places of library.c are those of libibverbs's header. */
#define ALONE
#include "../preload/common.c"
#include "../preload/library.c"
#include <infiniband/verbs.h>

#define SAME(place, type, field) _Static_assert((place) == offsetof(struct type, field), #type " " #field)
#define BEFORE(place, field)                                                                                           \
	_Static_assert((place) + (int)offsetof(struct verbs_context, context) ==                                       \
			   (int)offsetof(struct verbs_context, field),                                                 \
		       #field)

BEFORE(OFF_QUERY_DEVICE_EX, query_device_ex);
BEFORE(OFF_CREATE_QP_EX, create_qp_ex);
SAME(OFF_CREATE_CQ, ibv_context, ops._compat_create_cq);
SAME(OFF_POLL_CQ, ibv_context, ops.poll_cq);
SAME(OFF_CMD_FD, ibv_context, cmd_fd);
SAME(OFF_ABI, ibv_context, abi_compat);
SAME(OFF_START_POLL, ibv_cq_ex, start_poll);
SAME(OFF_NEXT_POLL, ibv_cq_ex, next_poll);
SAME(OFF_END_POLL, ibv_cq_ex, end_poll);
SAME(OFF_INLINE, ibv_qp_ex, wr_set_inline_data);
SAME(OFF_INLINE_LIST, ibv_qp_ex, wr_set_inline_data_list);
SAME(OFF_COMP_MASK, ibv_qp_init_attr_ex, comp_mask);
SAME(OFF_SEND_OPS, ibv_qp_init_attr_ex, send_ops_flags);
SAME(OFF_CAPABILITIES, ibv_device_attr_ex, device_cap_flags_ex);
_Static_assert(CONTEXT_SIZE == sizeof(struct ibv_context), "the size of a context");
_Static_assert(ATTR_SIZE >= sizeof(struct ibv_device_attr_ex), "the size of the attributes");
_Static_assert(sizeof(struct verbs_context) >= MAX_FIELDS * sizeof(void *), "the fields of a context");
_Static_assert(offsetof(struct verbs_context, sz) + sizeof(size_t) == offsetof(struct verbs_context, context), "sz");
