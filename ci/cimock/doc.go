// Package cimock has a gomock mock of every interface of package ci. They are generated in package mode, which reads compiled
// types: the source mode of golang/mock 1.6 does not parse generic functions. Run go generate here after a change of ci; a test
// compares the method sets and fails when that was forgotten.
package cimock

//go:generate go tool mockgen -write_package_comment=false -destination=mocks.go -package=cimock ciddk/ci Object,Unwrapper,HCA,Registrar,CA,Process,UserCA,PD,AV,CQ,SRQ,QP,Mcast,MR,FMR,MW,RDD,EEC,Memory,FileMemory,DMA,UndeliveredReporter,PeerActivity
