// Package smamutants holds drivers with one deliberate fault each for the self test of package smasuite. Only programs
// with a self test import it. Production code imports only the suite.
package smamutants
