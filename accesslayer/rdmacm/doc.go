// Package rdmacm connects by IP address, as the RDMA CM of Linux does and in its language: port spaces, the IP header in a request's private
// data, UD by SIDR, multicast.
package rdmacm
