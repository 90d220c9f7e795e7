// Package opensm tests fabrics with the programs that manage real ones: OpenSM and infiniband-diags, over package
// fabric/ibsim. The tests skip where the programs are missing:
//
//	apt-get install opensm infiniband-diags libumad2sim0
//
// The packages start a daemon of OpenSM on some systems. The tests neither need nor use it.
package opensm
