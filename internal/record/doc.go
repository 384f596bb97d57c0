// Package record keeps the facts of a run as bytes: in the run's file on disk, and on the way from
// the machine that measured to the one that watches.
//
// A recording is written while the run goes on and is never rewritten. It is a short header and then blocks: about
// one second of facts each, checked by a checksum and readable without any other block. If the writer is killed or
// the disk is full, everything up to the last complete block is there. A damaged block loses only itself: the reader
// says which bytes cannot be read and what was recorded in them, and reads on. Blocks of several recordings make one:
// that of several sources.
//
//	w, err := record.Create("run.lapse")       f, err := record.Open("run.lapse")
//	w.Append(fact)                             run, err := f.Run()
//	w.Flush() // each second                   for batch, err := range run.Batches { … }
//	w.Close()                                  f.Close()
//
// [Decode] reads facts from any stream of such bytes. [Writer.Tail] hands out the bytes of a
// recording that still grows, and a [Copy] receives them elsewhere: byte for byte the same file.
//
// # Format 5
//
// Every later Lapse reads this format. A test reads the recording in testdata for ever.
//
//	recording = magic block*
//	magic     = "LAPSE" 1A 0A version               8 bytes; version is 5
//	block     = mark length crc check payload       mark is D7 "LB" 0A; the next three are uint32, little endian
//	payload   = head n column*                      n is a uvarint
//	head      = size frame                          size is a uvarint; 0 where there is no frame
//	column    = size frame                          as head
//
// length counts the payload's bytes; crc is the payload's CRC-32C, check that of the 12 bytes before it (so that a
// damaged length is known as damage and not taken for an unfinished block). A reader finds the next block behind
// damage by its mark and check.
//
// A frame is a zstd frame. The head holds the block's facts in order, each after a byte that says what it is: a small
// fact as its length and JSON; a batch as varints for its parts other than requests (source, FirstSeq, number of
// requests, watermarks), as differences to the batch before it in the block; changes of held connections as columns of
// varints (held.go). Facts that others refer to (the run, sources, targets, backends, peers) are repeated now and then
// and at the end, with lower-case letters for bytes, for a reader that has lost the first.
//
// The columns hold the block's n requests, a varint for each: see columns.go. A column of zeros, and one that was not
// known when the block was written, has no frame.
//
// The order of the requests in a batch means nothing, and is not kept: they come back by target and Seq.
package record
