// SPDX-License-Identifier: Apache-2.0
// librondo.so is all of the internal archive; a target needs a source of its own.
