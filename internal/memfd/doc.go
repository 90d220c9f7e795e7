// Package memfd creates memory that processes share through a descriptor (Linux, memfd_create(2)).
package memfd
