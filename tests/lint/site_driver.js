// SPDX-License-Identifier: Apache-2.0
// This script runs in a page of the site's server. It opens each page in a frame of 400 pixels, and searches for each
// function as a reader does. It posts what it found as JSON to /result. site_test.py starts it and judges the result.
'use strict';

const width = 400;
const turns_max = 3000;  // of 20 ms: a minute
const frame = document.createElement('iframe');
frame.style.width = `${width}px`;
frame.style.height = '800px';
document.body.append(frame);

const pause = (ms) => new Promise((resume) => setTimeout(resume, ms));

/** Returns what `find` returns as soon as that is not null. A script of the site may make it after the page is loaded. */
async function appears(find) {
  for (let turn = 0; turn < turns_max && find() === null; ++turn) await pause(20);
  return find();
}

function open(page) {
  return new Promise((resume) => {
    frame.onload = resume;
    frame.src = page;
  });
}

/** Returns what is wider than the window: the page as a whole, its text, or a box that cannot be scrolled by itself. */
async function measure(page) {
  await open(page);
  await pause(0);  // after the page's own handlers have laid it out
  const found = frame.contentDocument;
  const images = [...found.images].filter((image) => image.getAttribute('src'));
  await Promise.allSettled(images.map((image) => image.decode()));
  const drawings = [...found.querySelectorAll('object')];
  const text = found.getElementById('doc-content');
  return {
    page,
    window: frame.contentWindow.innerWidth,
    width: Math.max(found.documentElement.scrollWidth, text === null ? 0 : text.scrollWidth),
    text: text === null ? 0 : text.clientWidth,
    broken: [...images.filter((image) => image.naturalWidth === 0).map((image) => image.src),
             ...drawings.filter((each) => each.contentDocument === null).map((each) => each.data)],
  };
}

/** Returns the address of the first visible result whose text is `name`, or null if none appears. */
async function search(name) {
  const found = frame.contentDocument;
  const field = await appears(() => found.getElementById('MSearchField'));
  field.focus();
  field.value = name;
  frame.contentWindow.searchBox.Search();
  const results = found.getElementById('MSearchResults');
  for (let turn = 0; turn < turns_max; ++turn) {
    const inside = results.contentDocument;
    const asked = decodeURIComponent(results.contentWindow.location.search.slice(1));
    if (asked.toLowerCase() === name.toLowerCase() && inside.readyState === 'complete') {
      const shown = [...inside.querySelectorAll('.SRResult')].filter((each) => each.style.display !== 'none');
      const link = shown.flatMap((each) => [...each.querySelectorAll('a')])
                       .find((each) => each.textContent.startsWith(name));
      if (link) return link.href || link.getAttribute('onclick') || '';
      if (inside.getElementById('NoMatches').style.display === 'block') return null;
    }
    await pause(20);
  }
  return null;
}

async function run() {
  const asked = await (await fetch('/asked')).json();
  const result = {pages: [], functions: {}};
  for (const page of asked.pages) result.pages.push(await measure(page));
  await open('index.html');
  for (const name of asked.functions) result.functions[name] = await search(name);
  await fetch('/result', {method: 'POST', body: JSON.stringify(result)});
}

run().catch((error) => fetch('/result', {method: 'POST', body: JSON.stringify({error: String(error)})}));
