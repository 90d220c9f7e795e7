// Package smasuite holds the cases for subnet management of an InfiniBand port: classes, methods and attributes, the
// bytes of responses, M_Keys, and the rules of Set(PortInfo) (IBTA volume 1, 14.2). They reach the agent through
// CA.LocalMAD, which the vendor's driver implements.
//
// Each file holds one area: its requirements, and below each requirement the cases that prove it. Package smamutants
// holds the drivers that break them. Package validate describes the form of cases, under "For authors of cases".
package smasuite
