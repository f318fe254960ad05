// One process, no browser: what is tested here is pure, the rest runs in Chromium (tests/browser).
export default {
  test: { include: ['src/__tests__/*.spec.ts'], pool: 'threads', isolate: false }
};
