package verbs

// Config selects a device.
type Config struct {
	Device string // its name, such as "mlx5_0"
	// Extended uses the extended calls for CQs and send queues (ibv_create_cq_ex, ibv_create_qp_ex, ibv_start_poll,
	// ibv_wr_start), which are other code of the provider. They are slower here: a call for each field and request.
	Extended bool
}
