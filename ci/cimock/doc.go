// Package cimock contains a gomock mock of every interface of package ci. The mocks are generated in package mode,
// which reads compiled types: the source mode of golang/mock 1.6 does not parse generic functions. Run go generate in
// this folder after a change of ci. A test compares the method sets and fails if the mocks are stale.
package cimock

//go:generate go tool mockgen -write_package_comment=false -destination=mocks.go -package=cimock ciddk/ci Object,Unwrapper,HCA,Registrar,CA,Process,UserCA,PD,AV,CQ,SRQ,QP,Mcast,MR,FMR,MW,RDD,EEC,Memory,FileMemory,AtomicMemory,DMA,UndeliveredReporter,PeerActivity,UserObject,UserRegion
