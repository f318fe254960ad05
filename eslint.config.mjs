import js from '@eslint/js';
import jupyterPlugin from '@jupyter/eslint-plugin';
import prettier from 'eslint-config-prettier';
import { defineConfig } from 'eslint/config';
import tseslint from 'typescript-eslint';

export default defineConfig([
  js.configs.recommended,
  tseslint.configs.recommended,
  { plugins: { jupyter: jupyterPlugin } },
  jupyterPlugin.configs.recommended,
  {
    files: ['src/**/*.{ts,tsx}'],
    languageOptions: {
      parserOptions: { project: ['tsconfig.test.json'] }
    },
    rules: {
      curly: ['error', 'all'],
      eqeqeq: 'error',
      'no-undef': 'off',
      '@typescript-eslint/no-floating-promises': 'error'
    }
  },
  {
    files: ['src/__tests__/*.ts'],
    rules: { 'jupyter/no-untranslated-string': 'off' }
  },
  prettier
]);
