/*
 * A program with this header (cc -include) is linked with no library: it loads libibverbs, and finds the functions in
 * it by dlsym, or with BY_VERSION by dlvsym. The declarations of verbs.h become those of pointers to functions.
 */
#pragma GCC system_header /* which has macros of some of these names */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define _ibv_query_gid_ex (*to__ibv_query_gid_ex)
#define _ibv_query_gid_table (*to__ibv_query_gid_table)
#define ibv_ack_async_event (*to_ibv_ack_async_event)
#define ibv_ack_cq_events (*to_ibv_ack_cq_events)
#define ibv_alloc_pd (*to_ibv_alloc_pd)
#define ibv_close_device (*to_ibv_close_device)
#define ibv_create_comp_channel (*to_ibv_create_comp_channel)
#define ibv_create_qp (*to_ibv_create_qp)
#define ibv_dealloc_pd (*to_ibv_dealloc_pd)
#define ibv_dereg_mr (*to_ibv_dereg_mr)
#define ibv_destroy_comp_channel (*to_ibv_destroy_comp_channel)
#define ibv_destroy_cq (*to_ibv_destroy_cq)
#define ibv_destroy_qp (*to_ibv_destroy_qp)
#define ibv_free_device_list (*to_ibv_free_device_list)
#define ibv_get_async_event (*to_ibv_get_async_event)
#define ibv_get_cq_event (*to_ibv_get_cq_event)
#define ibv_get_device_list (*to_ibv_get_device_list)
#define ibv_modify_qp (*to_ibv_modify_qp)
#define ibv_open_device (*to_ibv_open_device)
#define ibv_qp_to_qp_ex (*to_ibv_qp_to_qp_ex)
#define ibv_query_gid (*to_ibv_query_gid)
#define ibv_reg_mr (*to_ibv_reg_mr)
#define ibv_reg_mr_iova2 (*to_ibv_reg_mr_iova2)
#define ibv_wc_status_str (*to_ibv_wc_status_str)
#include <infiniband/verbs.h>

#define FUNCTIONS(X)                                                                                                   \
	X(_ibv_query_gid_ex), X(_ibv_query_gid_table), X(ibv_ack_async_event), X(ibv_ack_cq_events), X(ibv_alloc_pd),  \
	    X(ibv_close_device), X(ibv_create_comp_channel), X(ibv_create_qp), X(ibv_dealloc_pd), X(ibv_dereg_mr),     \
	    X(ibv_destroy_comp_channel), X(ibv_destroy_cq), X(ibv_destroy_qp), X(ibv_free_device_list),                \
	    X(ibv_get_async_event), X(ibv_get_cq_event), X(ibv_get_device_list), X(ibv_modify_qp), X(ibv_open_device), \
	    X(ibv_qp_to_qp_ex), X(ibv_query_gid), X(ibv_reg_mr), X(ibv_reg_mr_iova2), X(ibv_wc_status_str)
#define ENTRY(name) {#name, (void **)&to_##name}

__attribute__((constructor)) static void look_up(void)
{
	static const struct {
		const char *name;
		void **to;
	} functions[] = {FUNCTIONS(ENTRY)};
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	for (size_t i = 0; library && i < sizeof functions / sizeof *functions; i++) {
#ifdef BY_VERSION
		*functions[i].to = dlvsym(library, functions[i].name, "IBVERBS_1.1");
#endif
		if (!*functions[i].to && !(*functions[i].to = dlsym(library, functions[i].name)))
			library = NULL;
	}
	if (!library) {
		puts(dlerror());
		exit(1);
	}
}
