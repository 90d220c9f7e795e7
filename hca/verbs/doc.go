// Package verbs is a driver for the RDMA devices of this machine: a ci.HCA over the system's libibverbs. A program that
// is written for package ci, the access layer or rdmacm runs on such a device as on the kit's software adapter, and the
// certifier judges the device together with its kernel driver and its provider.
//
//	names, err := verbs.Devices()
//	hca, err := verbs.Open(verbs.Config{Device: "rxe0"})
//	defer hca.Close()
//	ca, err := hca.OpenCA(hca.Info().GUID, onEvent, nil)
//
// The library is loaded at run time, without cgo. A program that imports this package is linked dynamically and needs
// glibc and rdma-core 31 or later; it builds without a C compiler, with CGO_ENABLED=0. The package works on Linux on
// amd64 and arm64; elsewhere Devices and Open return errors.ErrUnsupported.
//
// # What the driver claims
//
// Limits come from ibv_query_device and ibv_query_port. What a device only shows in use is tried when it is opened, on
// objects that are destroyed at once: QPs of type UC, the size of inline data, CQ resizing. What libibverbs has no call
// for is not claimed: LocalMAD, special QPs, physical memory, fast registration, FMRs, contexts of other processes.
//
// # What the driver adds
//
// Package ci has rules that libibverbs leaves to its caller: handles that were destroyed or belong to another adapter,
// unknown bits, requests that the service of a QP does not have (package ci/wrrules). The driver checks these, and
// moves a QP from Reset to Error by way of Init, because Linux has no such transition (ib_modify_qp_is_ok). All else is
// passed to the provider, and its errno becomes a ci.Status (statusOf). If the provider rejects a verb with EINVAL and
// no more detail, the driver compares the arguments with the limits of the device to name the status; it never rejects
// what the provider accepts.
//
// # Memory
//
// RegisterMR accepts memory that this process can address in one piece (ci.Bytes, mappings), and pins it until Destroy.
package verbs
