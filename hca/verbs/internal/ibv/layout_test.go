//go:build linux && (amd64 || arm64)

package ibv

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLayout compares the structures with those of the machine's infiniband/verbs.h. The header must be that of the
// architecture of the test.
func TestLayout(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("gcc is not installed")
	}
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err != nil {
		t.Skip("infiniband/verbs.h is not installed (Debian: libibverbs-dev)")
	}
	for _, s := range []struct {
		c      string
		v      any
		isHead bool     // the C structure goes on
		fields []string // of v, in order; "" for one without a counterpart. The C names
	}{
		{"ibv_device_attr", DeviceAttr{}, false, strings.Fields(
			"fw_ver node_guid sys_image_guid max_mr_size page_size_cap vendor_id vendor_part_id hw_ver " +
				"max_qp max_qp_wr device_cap_flags max_sge max_sge_rd max_cq max_cqe max_mr max_pd " +
				"max_qp_rd_atom max_ee_rd_atom max_res_rd_atom max_qp_init_rd_atom max_ee_init_rd_atom " +
				"atomic_cap max_ee max_rdd max_mw max_raw_ipv6_qp max_raw_ethy_qp max_mcast_grp " +
				"max_mcast_qp_attach max_total_mcast_qp_attach max_ah max_fmr max_map_per_fmr max_srq " +
				"max_srq_wr max_srq_sge max_pkeys local_ca_ack_delay phys_port_cnt")},
		{"ibv_port_attr", PortAttr{}, true, strings.Fields("state max_mtu active_mtu gid_tbl_len port_cap_flags " +
			"max_msg_sz bad_pkey_cntr qkey_viol_cntr pkey_tbl_len lid sm_lid lmc max_vl_num sm_sl subnet_timeout " +
			"init_type_reply active_width active_speed phys_state link_layer flags port_cap_flags2")},
		{"ibv_gid_entry", GIDEntry{}, false, strings.Fields("gid gid_index port_num gid_type ndev_ifindex")},
		{"ibv_mr", mrHead{}, false, strings.Fields("context pd addr length handle lkey rkey")},
		{"ibv_mw", mwHead{}, false, strings.Fields("context pd rkey handle type")},
		{"ibv_cq", cqHead{}, true, strings.Fields("context channel cq_context handle cqe")},
		{"ibv_qp", qpHead{}, true,
			strings.Fields("context qp_context pd send_cq recv_cq srq handle qp_num state qp_type")},
		{"ibv_comp_channel", channelHead{}, false, strings.Fields("context fd refcnt")},
		{"ibv_context", contextHead{}, true,
			append(strings.Fields("device ops cmd_fd async_fd num_comp_vectors"), "", "abi_compat")},
		{"ibv_cq_ex", cqExHead{}, true, append([]string{"", "mutex", "cond", "comp_events_completed"}, strings.Fields(
			"status wr_id start_poll next_poll end_poll read_opcode read_vendor_err read_byte_len read_imm_data "+
				"read_qp_num read_src_qp read_wc_flags read_slid read_sl read_dlid_path_bits")...)},
		{"ibv_qp_ex", qpExHead{}, true, append([]string{"", "qp_base.mutex", "qp_base.cond",
			"qp_base.events_completed"}, strings.Fields("comp_mask wr_id wr_flags wr_atomic_cmp_swp "+
			"wr_atomic_fetch_add wr_bind_mw wr_local_inv wr_rdma_read wr_rdma_write wr_rdma_write_imm wr_send "+
			"wr_send_imm wr_send_inv wr_send_tso wr_set_ud_addr wr_set_xrc_srqn wr_set_inline_data "+
			"wr_set_inline_data_list wr_set_sge wr_set_sge_list wr_start wr_complete")...)},
		{"ibv_cq_init_attr_ex", cqInitAttrEx{}, false, strings.Fields("cqe cq_context channel comp_vector wc_flags " +
			"comp_mask flags parent_domain")},
		{"ibv_poll_cq_attr", pollCQAttr{}, false, strings.Fields("comp_mask")},
		{"ibv_qp_init_attr_ex", qpInitAttrEx{}, false, strings.Fields("qp_context send_cq recv_cq srq cap qp_type " +
			"sq_sig_all comp_mask pd xrcd create_flags rwq_ind_tbl source_qpn send_ops_flags")},
		{"ibv_sge", SGE{}, false, strings.Fields("addr length lkey")},
		{"ibv_recv_wr", RecvWR{}, false, strings.Fields("wr_id next sg_list num_sge")},
		{"ibv_send_wr", SendWR{}, false, append(strings.Fields("wr_id next sg_list num_sge opcode send_flags imm_data "+
			"wr qp_type.xrc.remote_srqn"), "", "bind_mw")},
		{"ibv_wc", WC{}, false, strings.Fields("wr_id status opcode vendor_err byte_len imm_data qp_num src_qp " +
			"wc_flags pkey_index slid sl dlid_path_bits")},
		{"ibv_global_route", GlobalRoute{}, false,
			strings.Fields("dgid flow_label sgid_index hop_limit traffic_class")},
		{"ibv_ah_attr", AHAttr{}, false,
			strings.Fields("grh dlid sl src_path_bits static_rate is_global port_num")},
		{"ibv_qp_cap", QPCap{}, false,
			strings.Fields("max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data")},
		{"ibv_qp_init_attr", QPInitAttr{}, false,
			strings.Fields("qp_context send_cq recv_cq srq cap qp_type sq_sig_all")},
		{"ibv_qp_attr", QPAttr{}, false, strings.Fields("qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn " +
			"sq_psn dest_qp_num qp_access_flags cap ah_attr alt_ah_attr pkey_index alt_pkey_index " +
			"en_sqd_async_notify sq_draining max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num timeout " +
			"retry_cnt rnr_retry alt_port_num alt_timeout")},
		{"ibv_srq_attr", SRQAttr{}, false, strings.Fields("max_wr max_sge srq_limit")},
		{"ibv_srq_init_attr", srqInitAttr{}, false, strings.Fields("srq_context attr")},
		{"ibv_mw_bind", mwBind{}, false, append(strings.Fields("wr_id send_flags"), "", "bind_info.mr",
			"bind_info.addr", "bind_info.length", "bind_info.mw_access_flags")},
		{"ibv_async_event", AsyncEvent{}, false, strings.Fields("element event_type")},
	} {
		t.Run(s.c, func(t *testing.T) {
			var c, want strings.Builder
			typ := reflect.TypeOf(s.v)
			for i, f := range s.fields {
				if f == "" {
					continue
				}
				fmt.Fprintf(&c, "printf(\"%s %%zu\\n\", offsetof(struct %s, %s));\n", f, s.c, f)
				fmt.Fprintf(&want, "%s %d\n", f, typ.Field(i).Offset)
			}
			if !s.isHead {
				fmt.Fprintf(&c, "printf(\"size %%zu\\n\", sizeof(struct %s));\n", s.c)
				fmt.Fprintf(&want, "size %d\n", typ.Size())
			}
			require.Equal(t, want.String(), runC(t, gcc, c.String()))
		})
	}
	ops := reflect.TypeOf(contextHead{}.ops)
	var c, want strings.Builder
	for f, name := range map[string]string{"allocMW": "alloc_mw", "bindMW": "bind_mw", "deallocMW": "dealloc_mw",
		"pollCQ": "poll_cq", "notifyCQ": "req_notify_cq", "postSRQ": "post_srq_recv", "postSend": "post_send",
		"postRecv": "post_recv"} {
		field, ok := ops.FieldByName(f)
		require.True(t, ok)
		fmt.Fprintf(&c, "printf(\"%s %%zu\\n\", offsetof(struct ibv_context_ops, %s));\n", name, name)
		fmt.Fprintf(&want, "%s %d\n", name, field.Offset)
	}
	ext := reflect.TypeFor[contextExt]()
	for f, name := range map[string]string{"createCQEx": "create_cq_ex", "createQPEx": "create_qp_ex", "size": "sz"} {
		field, ok := ext.FieldByName(f)
		require.True(t, ok)
		fmt.Fprintf(&c, "printf(\"%s %%zu\\n\", offsetof(struct verbs_context, context) - "+
			"offsetof(struct verbs_context, %s));\n", name, name)
		fmt.Fprintf(&want, "%s %d\n", name, ext.Size()-field.Offset)
	}
	require.Equal(t, want.String(), runC(t, gcc, c.String()))
}

// runC compiles and runs a main function with the body, and returns its output.
func runC(t *testing.T, gcc, body string) string {
	dir := t.TempDir()
	src, bin := filepath.Join(dir, "layout.c"), filepath.Join(dir, "layout")
	text := "#include <stdio.h>\n#include <stddef.h>\n#include <infiniband/verbs.h>\nint main(void) {\n" + body + "}\n"
	require.NoError(t, os.WriteFile(src, []byte(text), 0o600))
	out, err := exec.CommandContext(t.Context(), gcc, "-o", bin, src).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var stdout bytes.Buffer
	cmd := exec.CommandContext(t.Context(), bin)
	cmd.Stdout = &stdout
	require.NoError(t, cmd.Run())
	return stdout.String()
}
