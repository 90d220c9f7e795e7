/* Probes of devices, ports, tables, protection domains, and address handles. */
#include "probe.h"

static void attributes(void)
{
	struct ibv_device_attr_ex a = {0};
	ERROR("query", ibv_query_device_ex(context, NULL, &a));
	say("atomic", "%d", a.orig_attr.atomic_cap);
	say("page_sizes", "%#lx", a.orig_attr.page_size_cap);
	say("ports", "%d", a.orig_attr.phys_port_cnt);
	say("cap_flags", "%#x", a.orig_attr.device_cap_flags);
	say("cap_flags_ex", "%#lx", a.device_cap_flags_ex);
	say("odp", "%lx %x", a.odp_caps.general_caps, a.odp_caps.per_transport_caps.rc_odp_caps);
	say("timestamp", "%lx %lx", a.completion_timestamp_mask, a.hca_core_clock);
	say("dm", "%lx", a.max_dm_size);
	say("tso", "%d", a.tso_caps.max_tso);
	say("rss", "%x", a.rss_caps.supported_qpts);
	say("wq", "%d", a.max_wq_type_rq);
	say("raw", "%x", a.raw_packet_caps);
	say("tags", "%d", a.tm_caps.max_num_tags);
	say("moderation", "%d", a.cq_mod_caps.max_cq_count);
	say("ah", "%d", a.orig_attr.max_ah > 0);
	say("pkeys", "%d", a.orig_attr.max_pkeys);
	say("vendor", "%x %d", a.orig_attr.vendor_id, a.orig_attr.vendor_part_id);
	struct ibv_query_device_ex_input in = {.comp_mask = 1};
	ERROR("comp_mask", ibv_query_device_ex(context, &in, &a));
}

static void ports(void)
{
	struct ibv_port_attr a;
	for (int p = 0; p < 4; p++)
		ERROR(text("query.%d", p), ibv_query_port(context, p, &a));
	MUST(!ibv_query_port(context, 1, &a));
	say("state", "%d %d", a.state, a.phys_state);
	say("lid", "%d %d %d", a.lid, a.sm_lid, a.lmc);
	say("max_mtu", "%d", a.max_mtu);
	say("pkeys", "%d", a.pkey_tbl_len);
	say("cap_flags", "%#x %#x", a.port_cap_flags, a.port_cap_flags2);
	say("max_msg_sz", "%#x", a.max_msg_sz);
	say("vl", "%d %d %d %d", a.max_vl_num, a.sm_sl, a.subnet_timeout, a.init_type_reply);
	say("link_layer", "%d", a.link_layer);
	say("flags", "%d", a.flags);
}

static void tables(void)
{
	__be16 pkey = 0;
	union ibv_gid g;
	struct ibv_gid_entry e;
	ERROR("pkey.0", ibv_query_pkey(context, 1, 0, &pkey));
	say("pkey", "%x", ntohs(pkey));
	ERROR("pkey.70000", ibv_query_pkey(context, 1, 70000, &pkey) ? -1 : 0);
	ERROR("pkey.negative", ibv_query_pkey(context, 1, -1, &pkey) ? -1 : 0);
	say("pkey.index", "%d", ibv_get_pkey_index(context, 1, htons(0xffff)));
	say("pkey.missing", "%d", ibv_get_pkey_index(context, 1, htons(0x1234)));
	say("pkey.port0", "%d", ibv_query_pkey(context, 0, 0, &pkey));
	say("gid.port0", "%d", ibv_query_gid(context, 0, 0, &g));
	say("gid.port2", "%d", ibv_query_gid(context, 2, 0, &g));
	say("gid.negative", "%d", ibv_query_gid(context, 1, -1, &g));
	say("gid.far", "%d", ibv_query_gid(context, 1, 100000, &g));
	say("gid.empty", "%d", ibv_query_gid(context, 1, 200, &g));
	ERROR("gid_ex.empty", ibv_query_gid_ex(context, 1, 200, &e, 0));
	ERROR("gid_ex.far", ibv_query_gid_ex(context, 1, 100000, &e, 0));
	ERROR("gid_ex.port0", ibv_query_gid_ex(context, 0, 0, &e, 0));
	ERROR("gid_ex.flags", ibv_query_gid_ex(context, 1, 0, &e, 1));
	struct ibv_gid_entry one;
	errno = 0;
	ssize_t n = ibv_query_gid_table(context, &one, 0, 0);
	say("table.none", "%d", (int)n);
	n = ibv_query_gid_table(context, &one, 1, 1);
	say("table.flags", "%d", (int)n);
}

static void domains(void)
{
	struct ibv_pd *p = ibv_alloc_pd(context);
	MUST(p);
	struct ibv_mr *m = ibv_reg_mr(p, buffer, PAGE, 0);
	MUST(m);
	ERROR("with_mr", ibv_dealloc_pd(p));
	MUST(!ibv_dereg_mr(m));
	struct ibv_mw *w = ibv_alloc_mw(p, IBV_MW_TYPE_1);
	MUST(w);
	ERROR("with_mw", ibv_dealloc_pd(p));
	MUST(!ibv_dealloc_mw(w));
	struct ibv_ah_attr a = {.grh = {.dgid = gid, .sgid_index = gid_index}, .is_global = 1, .port_num = 1};
	struct ibv_ah *ah = ibv_create_ah(p, &a);
	MUST(ah);
	ERROR("with_ah", ibv_dealloc_pd(p));
	MUST(!ibv_destroy_ah(ah));
	struct ibv_srq_init_attr s = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(p, &s);
	MUST(srq);
	ERROR("with_srq", ibv_dealloc_pd(p));
	MUST(!ibv_destroy_srq(srq));
	struct ibv_qp_init_attr q = {.send_cq = cq, .recv_cq = cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_qp *qp = ibv_create_qp(p, &q);
	MUST(qp);
	ERROR("with_qp", ibv_dealloc_pd(p));
	MUST(!ibv_destroy_qp(qp));
	ERROR("empty", ibv_dealloc_pd(p));
	struct ibv_td_init_attr t = {0};
	MADE("td", ibv_alloc_td(context, &t));
	struct ibv_xrcd_init_attr x = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1,
				       .oflags = O_CREAT};
	MADE("xrcd", ibv_open_xrcd(context, &x));
	struct ibv_alloc_dm_attr d = {.length = 64};
	MADE("dm", ibv_alloc_dm(context, &d));
	struct ibv_counters_init_attr c = {0};
	MADE("counters", ibv_create_counters(context, &c));
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq};
	MADE("wq", ibv_create_wq(context, &wq));
	struct ibv_values_ex v = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	ERROR("clock", ibv_query_rt_values_ex(context, &v));
	MADE("import_pd", ibv_import_pd(context, 1234));
	MADE("null_mr", ibv_alloc_null_mr(pd));
}

static void handles(void)
{
	const struct ibv_ah_attr good = {.grh = {.dgid = gid, .sgid_index = gid_index, .hop_limit = 1},
					 .is_global = 1,
					 .port_num = 1};
	struct ibv_ah_attr a = good;
	MADE("good", ibv_create_ah(pd, &a));
	a = good, a.port_num = 0;
	MADE("port0", ibv_create_ah(pd, &a));
	a = good, a.port_num = 2;
	MADE("port2", ibv_create_ah(pd, &a));
	a = good, a.is_global = 0, a.dlid = 1;
	MADE("no_grh", ibv_create_ah(pd, &a));
	a = good, a.grh.sgid_index = 200;
	MADE("empty_gid", ibv_create_ah(pd, &a));
	a = good, a.grh.sgid_index = 255;
	MADE("last_gid", ibv_create_ah(pd, &a));
	a = good, a.static_rate = 200;
	MADE("rate", ibv_create_ah(pd, &a));
	a = good, a.sl = 16;
	MADE("sl", ibv_create_ah(pd, &a));
	a = good, a.grh.flow_label = 0xffffffff;
	MADE("flow", ibv_create_ah(pd, &a));
	a = good, memset(&a.grh.dgid, 0, 16);
	MADE("zero_gid", ibv_create_ah(pd, &a));
	a = good, inet_pton(AF_INET6, "ff0e::1", &a.grh.dgid);
	MADE("multicast", ibv_create_ah(pd, &a));
}

const struct probe device_probes[] = {{"attributes", attributes}, {"ports", ports},	{"tables", tables},
				      {"domains", domains},	  {"handles", handles}, {0}};
