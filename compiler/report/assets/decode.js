// Packed arrays: the inverse of packing.py (little-endian values, zlib, base64).

async function unpacked(id, ArrayType) {
  const element = document.getElementById(id);
  if (!element) return new ArrayType(0);
  const text = atob(element.textContent);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new ArrayType(await new Response(stream).arrayBuffer());
}
