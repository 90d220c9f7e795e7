// Package deviceplugin is a device plugin (v1beta1) for clusters without dynamic resource allocation: containers
// request the resource rdma.ciddk/adapter. It uses the same node's part as package driver, package node. A kubelet does
// not say when a device is free, so each device has a claim that stays; its daemon ends with the container.
package deviceplugin
