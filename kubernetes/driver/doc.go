// Package driver is a driver for dynamic resource allocation (resource.k8s.io/v1): it publishes the adapters that a
// machine can make as a ResourceSlice, and prepares ResourceClaims with the node's part, package node. It keeps no
// state.
package driver
