package ibv

// A symbol is a function of the library.
type symbol int

const (
	getDeviceList symbol = iota
	freeDeviceList
	getDeviceName
	openDevice
	closeDevice
	queryDevice
	queryPort
	queryGIDEx
	queryPKey
	allocPD
	deallocPD
	regMR
	regMRIOVA
	deregMR
	createChannel
	destroyChannel
	createCQ
	resizeCQ
	destroyCQ
	getCQEvent
	ackCQEvents
	createSRQ
	modifySRQ
	querySRQ
	destroySRQ
	createQP
	modifyQP
	queryQP
	destroyQP
	createAH
	destroyAH
	attachMcast
	detachMcast
	getAsyncEvent
	ackAsyncEvent
	qpToQPEx
	numSymbols
)

// symbols has the name of each symbol and its version. The version belongs to the layout of the structures: without
// it, the loader of an older glibc returns the first version, that of 2006.
var symbols = [numSymbols]struct {
	name, version string
	optional      bool // the caller has another way
}{
	getDeviceList:  {name: "ibv_get_device_list", version: "IBVERBS_1.1"},
	freeDeviceList: {name: "ibv_free_device_list", version: "IBVERBS_1.1"},
	getDeviceName:  {name: "ibv_get_device_name", version: "IBVERBS_1.1"},
	openDevice:     {name: "ibv_open_device", version: "IBVERBS_1.1"},
	closeDevice:    {name: "ibv_close_device", version: "IBVERBS_1.1"},
	queryDevice:    {name: "ibv_query_device", version: "IBVERBS_1.1"},
	queryPort:      {name: "ibv_query_port", version: "IBVERBS_1.1"},
	queryGIDEx:     {name: "_ibv_query_gid_ex", version: "IBVERBS_1.11"},
	queryPKey:      {name: "ibv_query_pkey", version: "IBVERBS_1.1"},
	allocPD:        {name: "ibv_alloc_pd", version: "IBVERBS_1.1"},
	deallocPD:      {name: "ibv_dealloc_pd", version: "IBVERBS_1.1"},
	regMR:          {name: "ibv_reg_mr", version: "IBVERBS_1.1"},
	regMRIOVA:      {name: "ibv_reg_mr_iova", version: "IBVERBS_1.7", optional: true},
	deregMR:        {name: "ibv_dereg_mr", version: "IBVERBS_1.1"},
	createChannel:  {name: "ibv_create_comp_channel", version: "IBVERBS_1.0"},
	destroyChannel: {name: "ibv_destroy_comp_channel", version: "IBVERBS_1.0"},
	createCQ:       {name: "ibv_create_cq", version: "IBVERBS_1.1"},
	resizeCQ:       {name: "ibv_resize_cq", version: "IBVERBS_1.1"},
	destroyCQ:      {name: "ibv_destroy_cq", version: "IBVERBS_1.1"},
	getCQEvent:     {name: "ibv_get_cq_event", version: "IBVERBS_1.1"},
	ackCQEvents:    {name: "ibv_ack_cq_events", version: "IBVERBS_1.1"},
	createSRQ:      {name: "ibv_create_srq", version: "IBVERBS_1.1"},
	modifySRQ:      {name: "ibv_modify_srq", version: "IBVERBS_1.1"},
	querySRQ:       {name: "ibv_query_srq", version: "IBVERBS_1.1"},
	destroySRQ:     {name: "ibv_destroy_srq", version: "IBVERBS_1.1"},
	createQP:       {name: "ibv_create_qp", version: "IBVERBS_1.1"},
	modifyQP:       {name: "ibv_modify_qp", version: "IBVERBS_1.1"},
	queryQP:        {name: "ibv_query_qp", version: "IBVERBS_1.1"},
	destroyQP:      {name: "ibv_destroy_qp", version: "IBVERBS_1.1"},
	createAH:       {name: "ibv_create_ah", version: "IBVERBS_1.1"},
	destroyAH:      {name: "ibv_destroy_ah", version: "IBVERBS_1.1"},
	attachMcast:    {name: "ibv_attach_mcast", version: "IBVERBS_1.1"},
	detachMcast:    {name: "ibv_detach_mcast", version: "IBVERBS_1.1"},
	getAsyncEvent:  {name: "ibv_get_async_event", version: "IBVERBS_1.1"},
	ackAsyncEvent:  {name: "ibv_ack_async_event", version: "IBVERBS_1.1"},
	qpToQPEx:       {name: "ibv_qp_to_qp_ex", version: "IBVERBS_1.6", optional: true},
}
