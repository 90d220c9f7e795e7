// Package report puts a validate.Report into forms that people and other programs read: text, JUnit XML, one HTML file, annotations
// of a CI service.
package report
