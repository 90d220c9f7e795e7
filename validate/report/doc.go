// Package report writes a validate.Report in forms for people and other programs: text, JUnit XML, a single HTML file,
// and annotations of a CI service.
package report
